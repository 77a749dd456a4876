package app

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/fsys"
)

var instanceName = regexp.MustCompile(`^[0-9a-f]{12}$`)

// instanceOf is the random name of the engine of a data folder, which tells apart the
// dead letters of engines that share a store. It is made with the folder.
func instanceOf(f fsys.FS, dir string) (string, error) {
	name := filepath.Join(dir, engine.InstanceFile)
	file, err := f.Open(name)
	if err == nil {
		data, err := io.ReadAll(io.LimitReader(file, 64))
		if err = errors.Join(err, file.Close()); err != nil {
			return "", fmt.Errorf("read %s: %w", name, err)
		}
		if !instanceName.Match(data) {
			return "", fmt.Errorf("%s holds no name of an instance (12 hexadecimal digits); remove the file, and the dead letters of this engine that a crash left half saved may come twice", name)
		}
		return string(data), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	id := hex.EncodeToString(b[:])
	err = fsys.WriteAtomic(f, name, func(w io.Writer) error { _, err := io.WriteString(w, id); return err })
	if err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return id, nil
}

// replayLock lets one engine at a time replay from a shared store, and only what is
// still there: else two schedules at the same minute would count everything twice.
type replayLock struct {
	db    redis.UniversalClient
	key   string
	store dlq.Store
}

const (
	replayLockTTL  = 30 * time.Second // of a batch; after a crash others go on then
	replayLockWait = 10 * time.Second
)

// unlock gives the lock back if it is still ours.
var unlock = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

// target is a dlq.Target under the lock. What it brought back is removed before others
// may look.
func (l *replayLock) target(to dlq.Target) dlq.Target {
	return func(ctx context.Context, entries []dlq.Entry) []error {
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
		var still []dlq.Entry
		var places []int
		for i := range entries {
			switch _, err := l.store.Get(ctx, entries[i].ID); {
			case errors.Is(err, dlq.ErrNotFound): // another engine brought it back
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
				errs[i] = errors.Join(errs[i], err) // it counts, and its next replay is known as a repeat here
			}
		}
		return errs
	}
}

func (l *replayLock) acquire(ctx context.Context) (release func(), err error) {
	var b [12]byte
	_, _ = rand.Read(b[:])
	token := hex.EncodeToString(b[:])
	for deadline := time.Now().Add(replayLockWait); ; {
		ok, err := l.db.SetNX(ctx, l.key, token, replayLockTTL).Result()
		if err != nil {
			return nil, fmt.Errorf("lock the replay in Redis: %w", err)
		}
		if ok {
			return func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
				defer cancel()
				_ = unlock.Run(ctx, l.db, []string{l.key}, token).Err() // else it ends by itself
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
