package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/anishathalye/porcupine"
)

// An item, as answers have it.
type item struct {
	Key     string `json:"key"`
	Value   string `json:"value"`
	Create  uint64 `json:"create"`
	Mod     uint64 `json:"mod"`
	Version uint64 `json:"version"`
	Lease   uint64 `json:"lease"`
}

type keys struct {
	Key string  `json:"key"`
	End *string `json:"end"`
}

func (keys keys) has(key string) bool {
	if keys.End == nil {
		return key == keys.Key
	}
	return key >= keys.Key && (*keys.End == "" || key < *keys.End)
}

type storeArg struct {
	Key       string                       `json:"key"`
	Value     string                       `json:"value"`
	Keys      keys                         `json:"keys"`
	Revision  uint64                       `json:"revision"`
	Limit     int                          `json:"limit"`
	Stale     bool                         `json:"stale"`
	Compare   []compare                    `json:"compare"`
	Then      []map[string]json.RawMessage `json:"then"`
	Otherwise []map[string]json.RawMessage `json:"otherwise"`
}

type compare struct {
	Key  string                     `json:"key"`
	Is   string                     `json:"is"`
	Than map[string]json.RawMessage `json:"than"`
}

// A store: what it had at each revision. The log says how it came to that.
type store struct {
	past []map[string]item
	log  string
}

func (state store) revision() uint64 { return uint64(len(state.past)) - 1 }

func stores() porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} {
			return store{past: []map[string]item{{}, {}}}
		},
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			before, made := state.(store), input.(call)
			return before.do(made.name, made.arg, made.answer)
		},
		Equal: func(one, other interface{}) bool {
			return one.(store).log == other.(store).log
		},
	}
}

// do does a call, and says whether its answer fits.
func (state store) do(name string, raw json.RawMessage, answer *reply) (bool, store) {
	arg := decode[storeArg](raw)
	if name == "range" {
		return answer == nil || state.reads(arg, answer), state
	}
	now := maps.Clone(state.past[state.revision()])
	written := state.revision() + 1
	fits, changes := false, ""
	if name == "txn" {
		holds := !slices.ContainsFunc(arg.Compare, func(one compare) bool { return !one.holds(now) })
		ops := arg.Then
		if !holds {
			ops = arg.Otherwise
		}
		fits = answer == nil || *answer.Succeeded == holds && len(answer.Parts) == len(ops)
		for index, op := range ops {
			for name, raw := range op {
				var part *reply
				if fits && answer != nil {
					part = &answer.Parts[index]
				}
				did, more := act(now, written, name, decode[storeArg](raw), part)
				fits, changes = fits && did, changes+more
			}
		}
	} else {
		fits, changes = act(now, written, name, arg, answer)
	}
	after := state
	if changes != "" {
		after.past = append(slices.Clip(state.past), now)
		after.log = state.log + changes + ";"
	}
	return fits && (answer == nil || *answer.Revision == after.revision()), after
}

// act changes the items, and says whether the answer fits, and what was changed.
func act(now map[string]item, written uint64, name string, arg storeArg, answer *reply) (bool, string) {
	switch name {
	case "put":
		old, found := now[arg.Key]
		create := written
		if found {
			create = old.Create
		}
		stored := item{arg.Key, arg.Value, create, written, old.Version + 1, 0}
		now[arg.Key] = stored
		return true, fmt.Sprintf("%q=%q", arg.Key, arg.Value)
	case "delete_range":
		changes, count := "", 0
		for _, key := range slices.Sorted(maps.Keys(now)) {
			if arg.Keys.has(key) {
				delete(now, key)
				changes += fmt.Sprintf("-%q", key)
				count++
			}
		}
		return answer == nil || *answer.Deleted == count, changes
	case "range":
		return answer == nil || found(now, arg, answer), ""
	default:
		panic("no operation " + name)
	}
}

// found says whether an answer has the items of a range.
func found(now map[string]item, arg storeArg, answer *reply) bool {
	all := []item{}
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if arg.Keys.has(key) {
			all = append(all, now[key])
		}
	}
	if answer.Count != nil && *answer.Count != len(all) {
		return false
	}
	if arg.Limit != 0 && len(all) > arg.Limit {
		all = all[:arg.Limit]
	}
	return slices.Equal(all, answer.Items)
}

func (state store) reads(arg storeArg, answer *reply) bool {
	now := state.revision()
	if answer.Revision == nil || *answer.Revision > now || !arg.Stale && *answer.Revision != now {
		return false
	}
	now = *answer.Revision
	at := now
	if arg.Revision != 0 {
		at = arg.Revision
	}
	if at > now {
		return answer.Error == "future"
	}
	return answer.Error == "" && found(state.past[at], arg, answer)
}

func (one compare) holds(now map[string]item) bool {
	order := 0
	stored, present := now[one.Key]
	for field, than := range one.Than {
		number := uint64(0)
		switch field {
		case "value":
			if !present {
				return false
			}
			value := decode[string](than)
			order = sign(stored.Value < value, stored.Value > value)
			continue
		case "create":
			number = stored.Create
		case "mod":
			number = stored.Mod
		case "version":
			number = stored.Version
		}
		expected := decode[uint64](than)
		order = sign(number < expected, number > expected)
	}
	switch one.Is {
	case "equal":
		return order == 0
	case "not_equal":
		return order != 0
	case "less":
		return order < 0
	default:
		return order > 0
	}
}

func sign(less, greater bool) int {
	switch {
	case less:
		return -1
	case greater:
		return 1
	default:
		return 0
	}
}
