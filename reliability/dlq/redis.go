package dlq

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/reliability/redisconn"
)

// RedisOptions say where in Redis and for how long entries are kept.
type RedisOptions struct {
	Client *redisconn.Client // required; the store does not close it
	// Prefix of all keys, "{sloengine:dlq}:". The braces keep them in one slot of a cluster.
	Prefix string
	// TTL is how long entries are kept, 7 days, at least a second.
	TTL time.Duration
	// MaxEntries bounds the store, 1,000,000. Beyond it Save fails with ErrFull.
	MaxEntries int64
	Now        func() time.Time // time.Now
	Metrics    *Metrics
}

// Redis is a Store that several instances share. An acknowledged entry is as durable as the
// appendfsync setting of Redis makes it. Every call to Redis is one script, which happens whole or
// not at all; Save makes one for up to 500 entries.
type Redis struct {
	o    RedisOptions
	keys []string
}

var _ Store = (*Redis)(nil)

// redisBatch is how many entries one script touches.
const redisBatch = 500

// NewRedis returns a store. It does not talk to Redis yet.
func NewRedis(o RedisOptions) (*Redis, error) {
	if o.Client == nil {
		return nil, errors.New("dead letters in Redis: Client is required")
	}
	o.Prefix = cmp.Or(o.Prefix, "{sloengine:dlq}:")
	o.TTL = cmp.Or(o.TTL, 7*24*time.Hour)
	if o.TTL < time.Second {
		return nil, fmt.Errorf("dead letters in Redis: invalid TTL %s (at least 1s)", o.TTL)
	}
	o.MaxEntries = cmp.Or(o.MaxEntries, 1_000_000)
	if o.MaxEntries < 1 {
		return nil, fmt.Errorf("dead letters in Redis: invalid maximum of %d entries (at least 1)", o.MaxEntries)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Metrics = o.Metrics.orNew()
	r := &Redis{o: o}
	for _, name := range []string{"entries", "order", "saved", "tally", "gone", "seq"} {
		r.keys = append(r.keys, o.Prefix+name)
	}
	return r, nil
}

// run calls a script with the age limit, the TTL and arguments of its own.
func (r *Redis) run(ctx context.Context, script *redisconn.Script, args ...any) (any, error) {
	now := r.o.Now()
	all := append([]any{now.Add(-r.o.TTL).UnixMilli(), r.o.TTL.Milliseconds(), now.UnixMilli()}, args...)
	answer, err := script.Run(ctx, r.o.Client, r.keys, all...)
	if errors.Is(err, redisconn.ErrClosed) {
		return nil, fmt.Errorf("%w: %w", ErrClosed, err)
	}
	if err != nil {
		return nil, fmt.Errorf("dead letters in Redis: %w", err)
	}
	return answer, nil
}

// Save implements Store.
func (r *Redis) Save(ctx context.Context, entries []Entry) error {
	kept, invalid := prepare(entries, r.o.Now())
	for chunk := range slices.Chunk(kept, redisBatch) {
		args := make([]any, 0, 1+3*len(chunk))
		args = append(args, r.o.MaxEntries)
		for _, e := range chunk {
			args = append(args, e.ID, e.Saved.UnixMilli(), redisValue(e.Entry, e.body))
		}
		answer, err := r.run(ctx, redisSave, args...)
		if err != nil {
			return err
		}
		fresh, ok := answer.([]any)
		if !ok {
			return fmt.Errorf("%w: %d entries", ErrFull, r.o.MaxEntries)
		}
		for i := range fresh {
			if n, _ := fresh[i].(int64); n == 1 {
				r.o.Metrics.saved(chunk[i].Origin, chunk[i].Reason, 1)
			}
		}
	}
	return r.o.Metrics.refused(len(entries)-len(kept), invalid)
}

// redisValue is the key under which the entry is counted, a line break, and the entry.
func redisValue(e *Entry, body []byte) string {
	key, _ := json.Marshal([]string{string(e.Origin), e.Reason, e.Sink}) // strings never fail
	return string(key) + "\n" + string(body)
}

func redisEntry(value any) (Entry, error) {
	text, _ := value.(string)
	_, body, ok := strings.Cut(text, "\n")
	if !ok {
		return Entry{}, errors.New("dead letters in Redis: stored value is not an entry")
	}
	return decodeEntry([]byte(body))
}

// List implements Store. A page looks at up to 20,000 entries.
func (r *Redis) List(ctx context.Context, q Query) (Page, error) {
	q, at, err := q.normal()
	if err != nil {
		return Page{}, err
	}
	page := Page{Entries: []Entry{}}
	last := at.n
	for looked := 0; ; {
		order, from := "old", "-inf"
		if q.Newest {
			order, from = "new", "+inf"
		}
		if at.begun {
			from = "(" + strconv.FormatUint(at.n, 10)
		}
		answer, err := r.run(ctx, redisList, order, from, redisBatch)
		if err != nil {
			return Page{}, err
		}
		rows, _ := answer.([]any)
		for i := 0; i+1 < len(rows); i += 2 {
			text, _ := rows[i].(string)
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return Page{}, fmt.Errorf("dead letters in Redis: invalid position %q", text)
			}
			at = position{n, true}
			e, err := redisEntry(rows[i+1])
			if err != nil {
				return Page{}, err
			}
			if !q.Match(&e) {
				continue
			}
			if len(page.Entries) == q.Limit {
				page.Next = cursor(last, q.Newest)
				return page, nil
			}
			page.Entries = append(page.Entries, e)
			last = n
		}
		if len(rows) < 2*redisBatch {
			return page, nil
		}
		if looked += redisBatch; looked >= 20_000 {
			page.Next = cursor(at.n, q.Newest)
			return page, nil
		}
	}
}

// Get implements Store.
func (r *Redis) Get(ctx context.Context, id string) (Entry, error) {
	if checkID(id) != nil {
		return Entry{}, fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	values, err := r.values(ctx, []string{id})
	if err != nil {
		return Entry{}, err
	}
	if values[0] == nil {
		return Entry{}, fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	return redisEntry(values[0])
}

func (r *Redis) values(ctx context.Context, ids []string) ([]any, error) {
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	answer, err := r.run(ctx, redisGet, args...)
	if err != nil {
		return nil, err
	}
	values, _ := answer.([]any)
	if len(values) != len(ids) {
		return nil, errors.New("dead letters in Redis: incomplete answer")
	}
	return values, nil
}

// Discard implements Store.
func (r *Redis) Discard(ctx context.Context, ids []string) (int, error) {
	return r.remove(ctx, ids, discarded)
}

// Replayed implements Store.
func (r *Redis) Replayed(ctx context.Context, ids []string) (int, error) {
	return r.remove(ctx, ids, replayed)
}

func (r *Redis) remove(ctx context.Context, ids []string, why removal) (n int, err error) {
	for chunk := range slices.Chunk(ids, redisBatch) {
		args := make([]any, 0, 1+len(chunk))
		args = append(args, goneIDs)
		for _, id := range chunk {
			args = append(args, id)
		}
		answer, err := r.run(ctx, redisRemove, args...)
		if err != nil {
			return n, err
		}
		removed, _ := answer.(int64)
		n += int(removed)
		r.o.Metrics.removed[why].Add(int(removed))
	}
	return n, nil
}

// Failed implements Store.
func (r *Redis) Failed(ctx context.Context, failures []Failure) (n int, err error) {
	for chunk := range slices.Chunk(failures, redisBatch) {
		ids := make([]string, len(chunk))
		for i := range chunk {
			ids[i] = chunk[i].ID
		}
		values, err := r.values(ctx, ids)
		if err != nil {
			return n, err
		}
		var args []any
		for i, value := range values {
			if value == nil {
				continue
			}
			e, err := redisEntry(value)
			if err != nil {
				return n, err
			}
			e = e.failed(chunk[i])
			body, err := e.encode()
			if err != nil {
				return n, err
			}
			args = append(args, e.ID, value, redisValue(&e, body))
		}
		if len(args) == 0 {
			continue
		}
		answer, err := r.run(ctx, redisReplace, args...)
		if err != nil {
			return n, err
		}
		moved, _ := answer.(int64)
		n += int(moved)
	}
	return n, nil
}

// Stats implements Store.
func (r *Redis) Stats(ctx context.Context) (Stats, error) {
	answer, err := r.run(ctx, redisStats)
	if err != nil {
		return Stats{}, err
	}
	parts, _ := answer.([]any)
	if len(parts) != 4 {
		return Stats{}, errors.New("dead letters in Redis: incomplete answer")
	}
	all := tallies{}
	var size int64
	fields, _ := parts[0].([]any)
	for i := 0; i+1 < len(fields); i += 2 {
		field, _ := fields[i].(string)
		text, _ := fields[i+1].(string)
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return Stats{}, fmt.Errorf("dead letters in Redis: invalid count %q", text)
		}
		if field == "bytes" {
			size = n
			continue
		}
		var key []string
		if err := json.Unmarshal([]byte(field), &key); err != nil || len(key) != 3 {
			return Stats{}, fmt.Errorf("dead letters in Redis: invalid count key %q", field)
		}
		all.add(all.admit(tallyKey{Origin(key[0]), key[1], key[2]}), n)
	}
	s := all.stats()
	s.Backend, s.Bytes = "redis", size
	for i, at := range []*time.Time{&s.Oldest, &s.Newest} {
		if text, _ := parts[1+i].(string); text != "" {
			ms, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return Stats{}, fmt.Errorf("dead letters in Redis: invalid time %q", text)
			}
			*at = time.UnixMilli(ms).UTC()
		}
	}
	s.MemoryBytes, _ = parts[3].(int64)
	r.o.Metrics.holds(s.ByOrigin, s.Bytes, s.Oldest)
	return s, nil
}

// Purge implements Store.
func (r *Redis) Purge(ctx context.Context, before time.Time) (n int, err error) {
	limit := before.UnixMilli()
	if before.Nanosecond()%1e6 > 0 {
		limit++
	}
	for {
		answer, err := r.run(ctx, redisPurge, limit, redisBatch, goneIDs)
		if err != nil {
			return n, err
		}
		removed, _ := answer.(int64)
		n += int(removed)
		r.o.Metrics.removed[purged].Add(int(removed))
		if removed < redisBatch {
			return n, nil
		}
	}
}

// Close implements Store. The client stays open.
func (r *Redis) Close() error { return nil }
