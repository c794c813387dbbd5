// The peer grpc-go: protobuf's BytesValue as request and response, on one connection. Its contract
// with petasos-bench is in ../README.md.
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	method = "/petasos.bench.Bench/Call"
	// grpc-go's default would refuse what is measured.
	messageBytesMax = 1 << 30
	// HTTP/2's windows: with its default of 64 KiB large messages would wait for updates.
	streamWindowBytes     = 4 << 20
	connectionWindowBytes = 16 << 20
	// The collector runs less often than by default, as servers under load have it.
	gcPercent = 400
)

type options struct {
	server                 string
	size, response, window int
}

func main() {
	debug.SetGCPercent(gcPercent)
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: serve|call [--server A] --size N --response M --window W")
	}
	var o options
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.StringVar(&o.server, "server", "", "where the server is")
	flags.IntVar(&o.size, "size", 64, "bytes of a request")
	flags.IntVar(&o.response, "response", 64, "bytes of a response")
	flags.IntVar(&o.window, "window", 1, "calls outstanding")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if min(o.size, o.response) < 0 || max(o.size, o.response) > messageBytesMax || o.window < 1 {
		return fmt.Errorf("sizes and windows are positive, and sizes at most %d", messageBytesMax)
	}
	switch args[0] {
	case "serve":
		return serve(newPayloads(o))
	case "call":
		return call(o, newPayloads(o))
	}
	return fmt.Errorf("%s is neither serve nor call", args[0])
}

// What requests and responses hold: the number of the call as far as it fits, then a pattern.
type payloads struct {
	request, response []byte
	numberBytes       int
}

func newPayloads(o options) *payloads {
	fill := func(length int, step byte) []byte {
		data := make([]byte, length)
		for at := range data {
			data[at] = byte(at) * step
		}
		return data
	}
	return &payloads{fill(o.size, 7), fill(o.response, 11), min(o.size, o.response, 8)}
}

func (p *payloads) requestOf(number uint64) []byte {
	request := bytes.Clone(p.request)
	var le [8]byte
	binary.LittleEndian.PutUint64(le[:], number)
	copy(request[:p.numberBytes], le[:])
	return request
}

func (p *payloads) answer(request []byte) ([]byte, error) {
	if len(request) != len(p.request) {
		return nil, fmt.Errorf("a request of %d bytes, not %d", len(request), len(p.request))
	}
	response := bytes.Clone(p.response)
	copy(response[:p.numberBytes], request)
	return response, nil
}

// Checks a response's length and number, and all of its bytes if thorough.
func (p *payloads) check(number uint64, response []byte, thorough bool) error {
	if len(response) != len(p.response) {
		return fmt.Errorf("a response of %d bytes, not %d", len(response), len(p.response))
	}
	var le [8]byte
	binary.LittleEndian.PutUint64(le[:], number)
	rest := p.numberBytes
	if !thorough {
		rest = max(rest, len(response)-1)
	}
	same := bytes.Equal(response[:p.numberBytes], le[:p.numberBytes])
	if !same || !bytes.Equal(response[rest:], p.response[rest:]) {
		return fmt.Errorf("a response with other bytes than sent")
	}
	return nil
}

// The service, as protoc-gen-go-grpc would write it.
type bench interface {
	call(context.Context, *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error)
}

func (p *payloads) call(
	_ context.Context, request *wrapperspb.BytesValue,
) (*wrapperspb.BytesValue, error) {
	response, err := p.answer(request.GetValue())
	return wrapperspb.Bytes(response), err
}

func handle(
	server any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor,
) (any, error) {
	request := new(wrapperspb.BytesValue)
	if err := decode(request); err != nil {
		return nil, err
	}
	return server.(bench).call(ctx, request)
}

var service = grpc.ServiceDesc{
	ServiceName: "petasos.bench.Bench",
	HandlerType: (*bench)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "Call", Handler: handle}},
}
