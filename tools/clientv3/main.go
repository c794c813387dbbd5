// Go's client of etcd, used as applications use it. The argument names the endpoints.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func check(err error, what string) {
	if err != nil {
		fmt.Printf("%s: %v\n", what, err)
		os.Exit(1)
	}
}

func ensure(isSo bool, what string) {
	if !isSo {
		fmt.Println("not so:", what)
		os.Exit(1)
	}
}

func keys(ctx context.Context, client *clientv3.Client) {
	put, err := client.Put(ctx, "go/a", "1")
	check(err, "put")
	first := put.Header.Revision
	_, err = client.Put(ctx, "go/b", "2")
	check(err, "put")
	got, err := client.Get(ctx, "go/", clientv3.WithPrefix(), clientv3.WithLimit(1))
	check(err, "get")
	ensure(got.Count == 2 && got.More && len(got.Kvs) == 1, "a limit counts all and says there is more")
	sorted := clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortDescend)
	got, err = client.Get(ctx, "go/", clientv3.WithPrefix(), sorted)
	check(err, "get sorted")
	ensure(string(got.Kvs[0].Key) == "go/b", "the last one is first")
	done, err := client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision("go/a"), "=", first)).
		Then(clientv3.OpPut("go/a", "3"), clientv3.OpGet("go/a")).
		Else(clientv3.OpGet("go/a")).Commit()
	check(err, "txn")
	ensure(done.Succeeded, "the comparison is true")
	ensure(string(done.Responses[1].GetResponseRange().Kvs[0].Value) == "3", "it reads what it wrote")
	_, err = client.Txn(ctx).Then(clientv3.OpPut("x", "1"), clientv3.OpPut("x", "2")).Commit()
	ensure(errors.Is(err, rpctypes.ErrDuplicateKey), "a key is put once")
	_, err = client.Get(ctx, "go/a", clientv3.WithRev(1<<40))
	ensure(errors.Is(err, rpctypes.ErrFutureRev), "the future is not known")

	// What has happened is told again, from where it is asked for, and then what happens.
	watching, stop := context.WithCancel(ctx)
	told := client.Watch(watching, "go/", clientv3.WithPrefix(), clientv3.WithRev(first), clientv3.WithPrevKV())
	_, err = client.Delete(ctx, "go/b")
	check(err, "delete")
	var seen []string
	for len(seen) < 4 {
		answer := <-told
		check(answer.Err(), "watch")
		for _, event := range answer.Events {
			seen = append(seen, fmt.Sprintf("%s %s=%s", event.Type, event.Kv.Key, event.Kv.Value))
			if event.Type == clientv3.EventTypeDelete {
				ensure(string(event.PrevKv.Value) == "2", "what was there before is told")
			}
		}
	}
	stop()
	all := strings.Join(seen, " ")
	ensure(all == "PUT go/a=1 PUT go/b=2 PUT go/a=3 DELETE go/b=", "changes are told in order: "+all)

	got, err = client.Get(ctx, "go/a")
	check(err, "get")
	_, err = client.Compact(ctx, got.Header.Revision)
	check(err, "compact")
	_, err = client.Get(ctx, "go/a", clientv3.WithRev(first))
	ensure(errors.Is(err, rpctypes.ErrCompacted), "what was compacted is gone")
	answer := <-client.Watch(ctx, "go/a", clientv3.WithRev(first))
	ensure(errors.Is(answer.Err(), rpctypes.ErrCompacted), "a watch is told so")
	ensure(answer.CompactRevision == got.Header.Revision, "and from where on it may begin")
}

func leases(ctx context.Context, client *clientv3.Client) {
	lease, err := client.Grant(ctx, 2)
	check(err, "grant")
	_, err = client.Put(ctx, "lease/a", "1", clientv3.WithLease(lease.ID))
	check(err, "put with a lease")
	kept, stop := context.WithCancel(ctx)
	alive, err := client.KeepAlive(kept, lease.ID)
	check(err, "keep alive")
	for renewed := 0; renewed < 4; renewed++ {
		ensure(<-alive != nil, "a lease that is renewed lives")
	}
	left, err := client.TimeToLive(ctx, lease.ID, clientv3.WithAttachedKeys())
	check(err, "time to live")
	ensure(left.TTL >= 1 && len(left.Keys) == 1, "it has its key")
	gone := client.Watch(ctx, "lease/a")
	stop()
	answer := <-gone
	check(answer.Err(), "watch")
	ensure(answer.Events[0].Type == clientv3.EventTypeDelete, "a key goes with its lease")
	_, err = client.Put(ctx, "lease/a", "1", clientv3.WithLease(lease.ID))
	ensure(errors.Is(err, rpctypes.ErrLeaseNotFound), "a lease that has ended is gone")
}

func recipes(ctx context.Context, client *clientv3.Client) {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(10))
	check(err, "session")
	other, err := concurrency.NewSession(client, concurrency.WithTTL(10))
	check(err, "session")
	mine, theirs := concurrency.NewMutex(session, "/lock"), concurrency.NewMutex(other, "/lock")
	check(mine.Lock(ctx), "lock")
	ensure(errors.Is(theirs.TryLock(ctx), concurrency.ErrLocked), "one has the lock")
	check(mine.Unlock(ctx), "unlock")
	check(theirs.Lock(ctx), "lock after the other")
	check(theirs.Unlock(ctx), "unlock")

	election := concurrency.NewElection(session, "/elect")
	check(election.Campaign(ctx, "me"), "campaign")
	leader, err := election.Leader(ctx)
	check(err, "leader")
	ensure(string(leader.Kvs[0].Value) == "me", "who was elected leads")
	check(election.Resign(ctx), "resign")

	for _, key := range []string{"stm/a", "stm/b"} {
		_, err = client.Put(ctx, key, "x")
		check(err, "put")
	}
	swap := func(stm concurrency.STM) error {
		a, b := stm.Get("stm/a"), stm.Get("stm/b")
		stm.Put("stm/a", b+"a")
		stm.Put("stm/b", a+"b")
		return nil
	}
	_, err = concurrency.NewSTM(client, swap)
	check(err, "stm")
	got, err := client.Get(ctx, "stm/a")
	check(err, "get")
	ensure(string(got.Kvs[0].Value) == "xa", "a transaction in memory is written")
	check(session.Close(), "close")
	check(other.Close(), "close")
}

func operators(ctx context.Context, client *clientv3.Client) {
	members, err := client.MemberList(ctx)
	check(err, "member list")
	ensure(len(members.Members) >= 1, "there are members")
	status, err := client.Status(ctx, client.Endpoints()[0])
	check(err, "status")
	ensure(status.Leader != 0, "somebody leads")
	_, err = client.MemberRemove(ctx, 99)
	ensure(errors.Is(err, rpctypes.ErrMemberNotFound), "nobody has this number")
	check(client.Sync(ctx), "sync")
}

func main() {
	endpoints := strings.Split(os.Args[1], ",")
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 5 * time.Second})
	check(err, "connect")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	keys(ctx, client)
	leases(ctx, client)
	recipes(ctx, client)
	operators(ctx, client)
	check(client.Close(), "close")
	fmt.Println("done")
}
