package relay

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/postgres"
	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/reliability/retry"
)

// The treatment of the later rows of a key once one of its rows is FAILED.
const (
	Continue = "continue"
	Block    = "block"
)

// Defaults of Options.
const (
	DefaultBatch       = 100
	DefaultWorkers     = 10
	DefaultLease       = 5 * time.Minute
	DefaultSendTimeout = time.Minute
	DefaultPoll        = time.Second
	// DefaultMaxAttempts are worth a day with the default delays: 2^n s up to 5 minutes, 285 s on average from then on.
	DefaultMaxAttempts = 312
	DefaultMemory      = 64 << 20
)

// Options of a Relay. Database, Table and Publisher are required. A zero field takes the default given with it.
type Options struct {
	Database  outbox.DB // safe for concurrent use, such as a pool
	Table     *outbox.Table
	Publisher Publisher

	// Claim is how rows are claimed, Lease or Optimistic; Lease.
	Claim string `yaml:"claim" one:"lease optimistic"`

	Batch   int `yaml:"batch" min:"1" max:"10000"` // rows that are published and written together; 100
	Workers int `yaml:"workers" min:"1" max:"100"` // batches at the same time; 10
	// Lease is how long a relay that does not renew it keeps its buckets, or a relay that has died its rows; 5 m.
	Lease time.Duration `yaml:"lease" min:"1s" max:"1h"`
	// SendTimeout bounds the publishing of a batch, from the taking of its rows. It is at most half of Lease, so that
	// a batch is never taken under a lease that may end while it is sent; 1 m.
	SendTimeout time.Duration `yaml:"send_timeout" min:"100ms" max:"30m"`
	// Poll is the longest wait between two looks for new rows; 1 s. After rows were found, waits are shorter.
	Poll time.Duration `yaml:"poll" min:"10ms" max:"1m"`
	// Retry are the delays before further attempts; 2 s, doubled up to 5 m, with a jitter of 20 %.
	Retry       retry.Options
	MaxAttempts int    `yaml:"max_attempts" min:"1" max:"1000000"` // after which a row is given up; 312
	OnFailed    string `yaml:"on_failed" one:"continue block"`     // Continue or Block; Continue
	// Memory bounds the rows that are taken and not published yet, in bytes; 64 MiB.
	Memory int64 `yaml:"memory" min:"1MiB" max:"16GiB" is:"size"`

	// of the messages about failed rows, as the publisher understands it; "": no messages
	DeadLetterTopic string
	DeadLetterKey   string // of these messages; "": the key of the row

	// Breaker is that of the publisher. Its name, health check and OnChange are set by New.
	Breaker breaker.Options

	// Listen, if not nil, calls its argument whenever rows may have been added, until ctx ends or the session does.
	Listen func(ctx context.Context, wake func()) error
	// Retention says which rows are deleted, and which partitions are made and dropped, every MaintainEvery; nil: none.
	Retention     *outbox.Retention
	MaintainEvery time.Duration // 10 m

	// StopTimeout bounds how long batches may continue once Run has to stop; 8 s.
	StopTimeout time.Duration

	Name    string // of this relay among the others; host name and random digits
	Metrics *Metrics
	Log     *slog.Logger
	Now     func() time.Time // for the log and the status; never for leases
}

func (o *Options) applyDefaults() {
	o.Batch, o.Workers = cmp.Or(o.Batch, DefaultBatch), cmp.Or(o.Workers, DefaultWorkers)
	o.Lease, o.SendTimeout = cmp.Or(o.Lease, DefaultLease), cmp.Or(o.SendTimeout, DefaultSendTimeout)
	o.Poll, o.MaxAttempts = cmp.Or(o.Poll, DefaultPoll), cmp.Or(o.MaxAttempts, DefaultMaxAttempts)
	o.OnFailed, o.Memory = cmp.Or(o.OnFailed, Continue), cmp.Or(o.Memory, DefaultMemory)
	o.Claim = cmp.Or(o.Claim, Lease)
	o.Retry = DefaultRetry(o.Retry)
	o.MaintainEvery, o.StopTimeout = cmp.Or(o.MaintainEvery, 10*time.Minute), cmp.Or(o.StopTimeout, 8*time.Second)
	if o.Name == "" {
		host, _ := os.Hostname()
		o.Name = cmp.Or(host, "relay") + "-" + strings.ToLower(rand.Text()[:8])
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
}

// DefaultRetry fills in the delays of a relay.
func DefaultRetry(o retry.Options) retry.Options {
	o.Base, o.Cap = cmp.Or(o.Base, 2*time.Second), cmp.Or(o.Cap, 5*time.Minute)
	o.Jitter, o.Spread = cmp.Or(o.Jitter, retry.PlusMinus), cmp.Or(o.Spread, 0.2)
	return o
}

func (o *Options) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.Database == nil || o.Table == nil || o.Publisher == nil {
		bad("relay: database, table and publisher are required")
		return errors.Join(errs...)
	}
	if o.Batch < 1 || o.Workers < 1 || o.MaxAttempts < 1 || o.Memory < 1 {
		bad("relay: batch, workers, max_attempts and memory must be at least 1")
	}
	if o.SendTimeout > o.Lease/2 {
		bad("relay: send_timeout (%s) must be at most half of lease (%s)", o.SendTimeout, o.Lease)
	}
	if o.OnFailed != Continue && o.OnFailed != Block {
		bad("relay: unknown on_failed %q (want continue or block)", o.OnFailed)
	}
	if o.Claim != Lease && o.Claim != Optimistic {
		bad("relay: unknown claim %q (want lease or optimistic)", o.Claim)
	}
	return errors.Join(errs...)
}

// Relay publishes the rows of a table. Run runs it once.
type Relay struct {
	o       Options
	sql     statements // once the table was checked
	retry   *retry.Policy
	breaker *breaker.Breaker
	m       *Metrics

	database, broker part // states for readiness

	claims claims
	wake   chan struct{} // has room for one: look for rows now

	lines   *rate.Limiter
	dropped atomic.Int64 // log lines about rows
}

// New checks the options. It connects to nothing.
func New(o Options) (*Relay, error) {
	o.applyDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	r := &Relay{o: o, m: o.Metrics}
	if r.m == nil {
		r.m = NewMetrics(nil, "")
	}
	var err error
	if r.retry, err = retry.New(o.Retry); err != nil {
		return nil, err
	}
	b := o.Breaker
	b.Name, b.HealthCloses = "relay", false
	b.Health = r.checkBroker
	b.OnChange = func(from, to breaker.State, reason string) {
		o.Log.Info("breaker changed", "from", from.String(), "to", to.String(), "reason", reason)
	}
	if r.breaker, err = breaker.New(b); err != nil {
		return nil, err
	}
	r.database.init("database", r)
	r.broker.init("broker", r)
	r.claims = &leases{r: r, own: map[int16]*bucket{}, busy: map[int16]bool{}}
	if o.Claim == Optimistic {
		r.claims = &optimistic{r: r}
	}
	r.wake, r.lines = make(chan struct{}, 1), rate.NewLimiter(failureLines, failureLines)
	return r, nil
}

// Run publishes rows until ctx ends. Then it takes no more rows, lets batches finish, and releases its claims.
func (r *Relay) Run(ctx context.Context) error {
	working, cut := context.WithCancelCause(context.WithoutCancel(ctx)) // of batches, which may continue for a while
	defer cut(nil)
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { r.watchBroker(ctx) })
	if !r.prepare(ctx) {
		return nil
	}
	for _, run := range []func(context.Context){r.claims.run, r.watchRows, r.maintain, r.listen,
		func(ctx context.Context) {
			_ = r.breaker.Run(ctx)
		}} {
		group.Go(func() { run(ctx) })
	}
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(r.o.StopTimeout, func() { cut(errStopped) })
	})()
	r.feed(ctx, working)
	group.Wait()
	r.claims.release()
	return nil
}

// prepareAgain is the wait between attempts to check the table.
const prepareAgain = 2 * time.Second

// prepare checks the table, until it is as it has to be. It reports whether it is, before ctx ends.
func (r *Relay) prepare(ctx context.Context) bool {
	for {
		schema, err := r.check(ctx)
		if err == nil {
			r.sql = newStatements(r.o.Table.WithKey(schema.Key), schema, &r.o)
			return true
		}
		if ctx.Err() == nil {
			r.database.is(err)
		}
		if !retry.Sleep(ctx, prepareAgain) {
			return false
		}
	}
}

// check compares the table with the needs of a relay. The error has the statements that help.
func (r *Relay) check(ctx context.Context) (*outbox.Schema, error) {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	need := outbox.NeedRelay
	if r.o.Claim == Optimistic {
		need = outbox.NeedOptimistic
	}
	schema, err := outbox.Check(ctx, r.o.Database, r.o.Table, need)
	var differs *outbox.SchemaError
	if err != nil && !errors.As(err, &differs) {
		return nil, fmt.Errorf("check the table: %w", postgres.Explain(err))
	}
	return schema, err
}

// databaseFailed notes that a statement failed. If that is about the table, the reason has the statements that help.
func (r *Relay) databaseFailed(ctx context.Context, doing string, err error) {
	if ctx.Err() != nil {
		return
	}
	err = postgres.Explain(err)
	var b *remote.BrokerError
	if errors.As(err, &b) && b.Kind == remote.KindTopology {
		var differs *outbox.SchemaError
		if _, cerr := r.check(ctx); errors.As(cerr, &differs) {
			err = cerr
		}
	}
	r.database.is(fmt.Errorf("%s: %w", doing, err))
}

var errStopped = errors.New("the relay was stopped")

// Status describes the parts of the relay.
type Status struct {
	Database, Broker PartStatus
	Buckets          int
}

// Status returns the current state.
func (r *Relay) Status() Status {
	return Status{r.database.status(), r.broker.status(), r.claims.count()}
}
