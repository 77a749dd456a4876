package shared

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sloengine/sloengine/reliability/ratelimit"
	"github.com/sloengine/sloengine/reliability/redisconn"
)

// StoreOptions of a Store.
type StoreOptions struct {
	Client *redisconn.Client // required, see Tune; the store does not close it
	// Prefix of all keys, by default {sloengine}. Braces are put around it if it has
	// none. Engines with the same prefix, database and policy share their limits.
	Prefix string
}

// Store is a ratelimit.Store in Redis. Take is one round trip.
type Store struct {
	client *redisconn.Client
	prefix string
	script *redisconn.Script
	groups sync.Pool
}

var _ ratelimit.Store = (*Store)(nil)

// NewStore does not talk to Redis yet.
func NewStore(o StoreOptions) (*Store, error) {
	if o.Client == nil {
		return nil, fmt.Errorf("shared rate limits: %w", errNoClient)
	}
	prefix, err := checkPrefix(o.Prefix)
	if err != nil {
		return nil, fmt.Errorf("shared rate limits: %w", err)
	}
	s := &Store{client: o.Client, prefix: prefix, script: takeScript}
	s.groups.New = func() any { return newGroup() }
	return s, nil
}

// Take implements ratelimit.Store. now is not used: time is that of Redis. It returns when ctx
// ends, even if the client does not. A group too large for one short script is charged by several
// in order, sent together; others may be charged in between. After an error some of them may have
// been carried out.
//
// A sliding window acts as if it were up to 1/16 longer, up to 1/1000 for limits of at
// most 16: never does more pass than the limit in any span of the window. Waits are
// exact to that.
func (s *Store) Take(ctx context.Context, _ time.Time, batches []*ratelimit.Tickets) error {
	return s.ask(ctx, batches, "take")
}

// Peek implements ratelimit.Store. Of tickets that fill several scripts each is judged as
// if it were the first.
func (s *Store) Peek(ctx context.Context, _ time.Time, t *ratelimit.Tickets) error {
	return s.ask(ctx, []*ratelimit.Tickets{t}, "peek")
}

func (s *Store) ask(ctx context.Context, batches []*ratelimit.Tickets, how string) error {
	g, _ := s.groups.Get().(*group)
	err := g.fill(batches)
	if err != nil {
		return fmt.Errorf("shared rate limits: %w", err)
	}
	if g.n == 0 {
		s.groups.Put(g)
		return nil
	}
	if err := s.send(ctx, g, how); err != nil {
		return fmt.Errorf("shared rate limits: %w", err)
	}
	g.decide(batches)
	g.reset()
	s.groups.Put(g)
	return nil
}

// send calls the script for each chunk in one pipeline, and again with its text for
// those that Redis did not run because it did not know it.
func (s *Store) send(ctx context.Context, g *group, how string) error {
	for _, c := range g.chunks[:g.n] {
		c.seal(s.prefix)
	}
	todo := g.chunks[:g.n]
	for round := range 3 {
		calls := make([][]any, len(todo))
		for i, c := range todo {
			calls[i] = s.script.Call(round > 0 && i == 0, c.names, c.args[0], c.args[1], c.args[2], how)
		}
		answers, err := s.client.Exec(ctx, calls...)
		if err != nil {
			return err
		}
		var again []*chunk
		for i, answer := range answers {
			if failed, ok := answer.(redisconn.Error); ok {
				if !redisconn.IsNoScript(failed) {
					return failed
				}
				again = append(again, todo[i])
				continue
			}
			text, _ := answer.(string)
			if err := todo[i].answer(text); err != nil {
				return err
			}
		}
		if len(again) == 0 {
			return nil
		}
		todo = again
	}
	return errors.New("redis loses the script as soon as it is loaded (does a client flush scripts?)")
}
