package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/bits"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Of a window of calls one in so many is timed and checked byte for byte.
const sample = 32

func serve(p *payloads) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(messageBytesMax),
		grpc.InitialWindowSize(streamWindowBytes),
		grpc.InitialConnWindowSize(connectionWindowBytes),
		grpc.NumStreamWorkers(1),
	)
	server.RegisterService(&service, p)
	go server.Serve(listener)
	fmt.Printf("ready %s\n", listener.Addr())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		switch command, _, _ := strings.Cut(lines.Text(), " "); command {
		case "serve":
			fmt.Println("started")
		case "stop":
			fmt.Println("done {}")
		default:
			return fmt.Errorf("%s is not known", lines.Text())
		}
	}
	return nil
}

func call(o options, p *payloads) error {
	connection, err := grpc.NewClient(o.server,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(messageBytesMax), grpc.MaxCallSendMsgSize(messageBytesMax),
		),
		grpc.WithInitialWindowSize(streamWindowBytes),
		grpc.WithInitialConnWindowSize(connectionWindowBytes),
	)
	if err != nil {
		return err
	}
	defer connection.Close()
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Split(lines.Text(), " ")
		if len(words) != 3 || words[0] != "turn" {
			return fmt.Errorf("%s is not known", lines.Text())
		}
		micros, err := strconv.ParseInt(words[2], 10, 32)
		if err != nil {
			return err
		}
		l := &load{payloads: p, callers: 1, sample: 1}
		if words[1] == "window" && o.window > 1 {
			l.callers, l.sample = o.window, sample
		}
		if err := l.run(connection, time.Duration(micros)*time.Microsecond); err != nil {
			return err
		}
	}
	return nil
}

// The closed loop of one turn.
type load struct {
	payloads *payloads
	callers  int
	sample   uint64
	next     atomic.Uint64
	isOver   atomic.Bool
}

// What one caller counts.
type count struct {
	completed uint64
	latency   map[uint64]uint64
	err       error
}

// Makes calls, and tells the parent what came of them.
func (l *load) run(connection *grpc.ClientConn, duration time.Duration) error {
	counts := make([]count, l.callers)
	var callers sync.WaitGroup
	begun := time.Now()
	for at := range counts {
		callers.Add(1)
		go func() {
			defer callers.Done()
			counts[at].latency = map[uint64]uint64{}
			counts[at].err = l.callOn(connection, begun.Add(duration), &counts[at])
		}()
	}
	callers.Wait()
	elapsed := time.Since(begun).Seconds()
	all := count{latency: map[uint64]uint64{}}
	for _, one := range counts {
		if one.err != nil {
			return one.err
		}
		all.completed += one.completed
		for nanos, times := range one.latency {
			all.latency[nanos] += times
		}
	}
	pairs := make([][2]uint64, 0, len(all.latency))
	for nanos, times := range all.latency {
		pairs = append(pairs, [2]uint64{nanos, times})
	}
	done := map[string]any{"completed": all.completed, "elapsed_s": elapsed, "latency": pairs}
	text, err := json.Marshal(done)
	fmt.Printf("done %s\n", text)
	return err
}

func (l *load) callOn(connection *grpc.ClientConn, ends time.Time, c *count) error {
	for {
		number := l.next.Add(1) - 1
		isTimed := number%l.sample == 0
		var begun time.Time
		if isTimed {
			begun = time.Now()
			if !begun.Before(ends) {
				l.isOver.Store(true)
			}
		}
		if l.isOver.Load() {
			return nil
		}
		request, response := wrapperspb.Bytes(l.payloads.requestOf(number)), new(wrapperspb.BytesValue)
		if err := connection.Invoke(context.Background(), method, request, response); err != nil {
			return err
		}
		if err := l.payloads.check(number, response.GetValue(), isTimed); err != nil {
			return err
		}
		c.completed++
		if isTimed {
			c.latency[rounded(uint64(time.Since(begun)))]++
		}
	}
}

// Keeps ten bits of a value.
func rounded(nanos uint64) uint64 {
	shift := max(bits.Len64(nanos)-10, 0)
	return nanos >> shift << shift
}
