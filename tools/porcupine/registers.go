package main

import (
	"encoding/json"
	"maps"

	"github.com/anishathalye/porcupine"
)

// A register. Its stamp is the last one that is known; later says that it has a later one.
type register struct {
	value   string
	present bool
	stamp   uint64
	later   bool
}

type registerArg struct {
	Key    string  `json:"key"`
	Value  string  `json:"value"`
	Expect *string `json:"expect"`
	Stamp  uint64  `json:"stamp"`
	Create bool    `json:"create"`
}

func registers() porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return map[string]register{} },
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			after, made := maps.Clone(state.(map[string]register)), input.(call)
			if made.name != "transaction" {
				return step(after, made.name, made.arg, made.answer), after
			}
			for index, part := range decode[[]map[string]json.RawMessage](made.arg) {
				var answer *reply
				if made.answer != nil {
					answer = &made.answer.Parts[index]
				}
				for name, arg := range part {
					if !step(after, name, arg, answer) {
						return false, after
					}
				}
			}
			return true, after
		},
		Equal: func(one, other interface{}) bool {
			return maps.Equal(one.(map[string]register), other.(map[string]register))
		},
	}
}

// step does an operation, and says whether its answer fits.
func step(state map[string]register, name string, raw json.RawMessage, answer *reply) bool {
	arg := decode[registerArg](raw)
	now := state[arg.Key]
	fits := true
	switch name {
	case "get":
		fits = answer == nil || now.reads(answer)
	case "set":
		fits = now.store(arg.Value, answer)
	case "delete":
		fits = answer == nil || answer.Existed == nil || *answer.Existed == now.present
		now.present, now.value = false, ""
	case "compare_set":
		holds := !now.present && arg.Expect == nil ||
			now.present && arg.Expect != nil && *arg.Expect == now.value
		fits = now.storeIf(holds, arg.Value, answer)
	case "compare_stamp":
		if answer != nil && !*answer.Done && now.later && now.present {
			break
		}
		holds := now.present && (now.later && arg.Stamp > now.stamp || !now.later && arg.Stamp == now.stamp)
		if holds {
			now.stamp, now.later = arg.Stamp, false
		}
		fits = now.storeIf(holds, arg.Value, answer)
	case "append":
		fits = now.extend(arg, answer)
	default:
		panic("no operation " + name)
	}
	state[arg.Key] = now
	return fits
}

func (now *register) reads(answer *reply) bool {
	value := decode[*string](answer.Value)
	if value == nil {
		return !now.present && (answer.Stamp == nil || *answer.Stamp == 0)
	}
	if !now.present || *value != now.value {
		return false
	}
	if answer.Stamp == nil {
		return true
	}
	fits := now.later && *answer.Stamp > now.stamp || !now.later && *answer.Stamp == now.stamp
	now.stamp, now.later = *answer.Stamp, false
	return fits
}

func (now *register) store(value string, answer *reply) bool {
	now.value, now.present = value, true
	if answer == nil || answer.Stamp == nil {
		now.later = true
		return true
	}
	fits := *answer.Stamp > now.stamp
	now.stamp, now.later = *answer.Stamp, false
	return fits
}

func (now *register) storeIf(holds bool, value string, answer *reply) bool {
	if answer != nil && *answer.Done != holds {
		return false
	}
	return !holds || now.store(value, answer)
}

func (now *register) extend(arg registerArg, answer *reply) bool {
	done := now.present || arg.Create
	if answer != nil && (answer.Done == nil || *answer.Done) != done {
		return false
	}
	if !done {
		return true
	}
	value := now.value + arg.Value
	if answer != nil && answer.Length != nil && *answer.Length != len(value) {
		return false
	}
	return now.store(value, answer)
}
