package dlq

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/sloengine/sloengine/reliability/redisconn"
)

// ReplayLock lets one engine at a time replay from a shared store, and only entries that still
// exist: otherwise two schedules at the same minute would count everything twice.
type ReplayLock struct {
	db    *redisconn.Client
	key   string
	store Store
}

// NewReplayLock makes a lock under a key in Redis, for replays from store.
func NewReplayLock(db *redisconn.Client, key string, store Store) *ReplayLock {
	return &ReplayLock{db: db, key: key, store: store}
}

const (
	replayLockTTL  = 30 * time.Second // of a batch; after a crash other engines continue then
	replayLockWait = 10 * time.Second
)

// unlockReplay releases the lock if it is still ours.
var unlockReplay = redisconn.NewScript(
	`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

// Target is a Target under the lock. Replayed entries are removed before other engines may look.
func (l *ReplayLock) Target(to Target) Target {
	return func(ctx context.Context, entries []Entry) []error {
		release, err := l.acquire(ctx)
		errs := make([]error, len(entries))
		if err != nil {
			for i := range errs {
				errs[i] = err
			}
			return errs
		}
		defer release()
		ctx, cancel := context.WithTimeout(ctx, replayLockTTL-5*time.Second)
		defer cancel()
		var still []Entry
		var places []int
		for i := range entries {
			switch _, err := l.store.Get(ctx, entries[i].ID); {
			case errors.Is(err, ErrNotFound): // another engine brought it back
			case err != nil:
				errs[i] = err
			default:
				still = append(still, entries[i])
				places = append(places, i)
			}
		}
		if len(still) == 0 {
			return errs
		}
		results := to(ctx, still)
		var done []string
		for k, i := range places {
			if results != nil {
				errs[i] = results[k]
			}
			if errs[i] == nil {
				done = append(done, entries[i].ID)
			}
		}
		if _, err := l.store.Replayed(ctx, done); err != nil {
			for _, i := range places {
				errs[i] = errors.Join(errs[i], err) // it counts, its next replay is recognised as a duplicate
			}
		}
		return errs
	}
}

func (l *ReplayLock) acquire(ctx context.Context) (release func(), err error) {
	var b [12]byte
	_, _ = rand.Read(b[:])
	token := hex.EncodeToString(b[:])
	for deadline := time.Now().Add(replayLockWait); ; {
		answer, err := l.db.Do(ctx, "SET", l.key, token, "PX", replayLockTTL.Milliseconds(), "NX")
		if err != nil {
			return nil, fmt.Errorf("lock replay in Redis: %w", err)
		}
		if answer != nil {
			return func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
				defer cancel()
				_, _ = unlockReplay.Run(ctx, l.db, []string{l.key}, token) // else it ends by itself
			}, nil
		}
		if time.Now().After(deadline) {
			return nil, errors.New("another engine is replaying from the same Redis; try again later")
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
