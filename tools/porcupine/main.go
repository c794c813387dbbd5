// Command porcupine judges recorded calls by the checker of that name.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

// A line of a history.
type line struct {
	Model   string                     `json:"model"`
	Process int                        `json:"process"`
	ID      int                        `json:"id"`
	At      int64                      `json:"at"`
	Call    map[string]json.RawMessage `json:"call"`
	Ok      json.RawMessage            `json:"ok"`
	End     string                     `json:"end"`
}

// A call: its name, its argument, and its answer, which is nil if nobody knows it.
type call struct {
	name   string
	arg    json.RawMessage
	answer *reply
}

// An answer.
type reply struct {
	Value     json.RawMessage `json:"value"`
	Stamp     *uint64         `json:"stamp"`
	Done      *bool           `json:"done"`
	Existed   *bool           `json:"existed"`
	Length    *int            `json:"length"`
	Number    *int64          `json:"number"`
	First     *uint64         `json:"first"`
	Parts     []reply         `json:"parts"`
	Revision  *uint64         `json:"revision"`
	Items     []item          `json:"items"`
	Count     *int            `json:"count"`
	Deleted   *int            `json:"deleted"`
	Succeeded *bool           `json:"succeeded"`
	Error     string          `json:"error"`
}

// Longer than any small history takes.
const patience = 5 * time.Second

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for _, path := range os.Args[1:] {
		name, calls, err := read(path)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			os.Exit(2)
		}
		model, found := models[name]
		if !found {
			fmt.Fprintf(os.Stderr, "%s: there is no model %q\n", path, name)
			os.Exit(2)
		}
		switch porcupine.CheckOperationsTimeout(model, calls, patience) {
		case porcupine.Ok:
			fmt.Fprintln(out, "ok")
		case porcupine.Illegal:
			fmt.Fprintln(out, "illegal")
		default:
			fmt.Fprintln(out, "unknown")
		}
	}
}

var models = map[string]porcupine.Model{
	"register": registers(),
	"counter":  counters(),
	"sequence": sequences(),
	"etcd":     stores(),
}

// read returns the model's name and the calls. Calls that are not done are left out; those whose
// outcome is unknown end at the end of time, with any answer.
func read(path string) (string, []porcupine.Operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", nil, err
	}
	defer file.Close()
	type id struct{ process, id int }
	model, order, open := "", []id{}, map[id]*porcupine.Operation{}
	decoder := json.NewDecoder(file)
	for decoder.More() {
		var now line
		if err := decoder.Decode(&now); err != nil {
			return "", nil, err
		}
		key := id{now.Process, now.ID}
		switch {
		case now.Model != "":
			model = now.Model
		case now.Call != nil:
			for name, arg := range now.Call {
				open[key] = &porcupine.Operation{
					ClientId: now.Process,
					Input:    call{name: name, arg: arg},
					Call:     now.At,
					Return:   math.MaxInt64,
				}
			}
			order = append(order, key)
		case now.End == "not_done":
			delete(open, key)
		case now.Ok != nil:
			input := open[key].Input.(call)
			input.answer = &reply{}
			if err := json.Unmarshal(now.Ok, input.answer); err != nil {
				return "", nil, err
			}
			open[key].Input, open[key].Return = input, now.At
		}
	}
	calls := []porcupine.Operation{}
	for _, key := range order {
		if operation, found := open[key]; found {
			calls = append(calls, *operation)
		}
	}
	return model, calls, nil
}

// decode panics if the argument is none of its operation: our reader has accepted it before.
func decode[T any](raw json.RawMessage) T {
	var value T
	if err := json.Unmarshal(raw, &value); err != nil {
		panic(err)
	}
	return value
}
