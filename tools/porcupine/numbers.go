package main

import "github.com/anishathalye/porcupine"

type numberArg struct {
	Key   string `json:"key"`
	By    int64  `json:"by"`
	Count uint64 `json:"count"`
}

// byKey divides calls that have one key each.
func byKey(history []porcupine.Operation) [][]porcupine.Operation {
	parts := map[string][]porcupine.Operation{}
	for _, operation := range history {
		key := decode[numberArg](operation.Input.(call).arg).Key
		parts[key] = append(parts[key], operation)
	}
	all := [][]porcupine.Operation{}
	for _, part := range parts {
		all = append(all, part)
	}
	return all
}

func counters() porcupine.Model {
	return porcupine.Model{
		Partition: byKey,
		Init:      func() interface{} { return int64(0) },
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			made := input.(call)
			after := state.(int64) + decode[numberArg](made.arg).By
			return made.answer == nil || *made.answer.Number == after, after
		},
	}
}

// The state of a sequence is the lowest number that may be next.
func sequences() porcupine.Model {
	return porcupine.Model{
		Partition: byKey,
		Init:      func() interface{} { return uint64(0) },
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			made := input.(call)
			if made.answer == nil {
				return true, state
			}
			first := *made.answer.First
			return first >= state.(uint64), first + decode[numberArg](made.arg).Count
		},
	}
}
