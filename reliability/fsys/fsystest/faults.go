package fsystest

import (
	"errors"
	"fmt"
	"strings"
)

// Op is a kind of operation.
type Op string

// The kinds of operation. All but OpOpen, OpOpenDir, OpRead and OpList change something and are
// counted by [Mem.Ops].
const (
	OpCreate      Op = "create"
	OpWrite       Op = "write"
	OpSync        Op = "sync"
	OpPreallocate Op = "preallocate"
	OpTruncate    Op = "truncate"
	OpRename      Op = "rename"
	OpRemove      Op = "remove"
	OpMkdir       Op = "mkdir"
	OpSyncDir     Op = "syncdir"
	OpLock        Op = "lock"
	OpOpen        Op = "open"
	OpOpenDir     Op = "opendir"
	OpRead        Op = "read"
	OpList        Op = "list"
)

func (o Op) changes() bool { return o != OpOpen && o != OpOpenDir && o != OpRead && o != OpList }

// ErrStopped is returned by every operation after [Mem.StopAt] took effect.
var ErrStopped = errors.New("process stopped")

// errStoppedNow marks the operation in the middle of which the process stopped.
var errStoppedNow = fmt.Errorf("%w here", ErrStopped)

type faults struct {
	ops    int64
	at     map[int64]error
	next   map[Op][]error
	always map[Op]error
	named  []namedFault
	stopAt int64
}

// namedFault makes operations of a kind fail on files whose names contain a text.
type namedFault struct {
	op   Op
	part string
	left int // how often; negative for always
	err  error
}

// Ops is the number of changing operations so far, failed ones included.
func (m *Mem) Ops() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.faults.ops
}

// FailAt makes the n-th changing operation from now (1 = the next) fail with err. A
// failing write writes its first half, a failing sync syncs nothing.
func (m *Mem) FailAt(n int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.faults.at == nil {
		m.faults.at = map[int64]error{}
	}
	m.faults.at[m.faults.ops+n] = err
}

// FailNext makes the next operation of a kind fail with err; called twice, the next two.
func (m *Mem) FailNext(op Op, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.faults.next == nil {
		m.faults.next = map[Op][]error{}
	}
	m.faults.next[op] = append(m.faults.next[op], err)
}

// FailAlways makes every operation of a kind fail with err until [Mem.ClearFaults].
func (m *Mem) FailAlways(op Op, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.faults.always == nil {
		m.faults.always = map[Op]error{}
	}
	m.faults.always[op] = err
}

// FailNamed makes operations of a kind fail with err on files whose names contain part: the next n of them, or all
// until [Mem.ClearFaults] if n is negative. Operations on other files, which may run at the same time, continue.
func (m *Mem) FailNamed(op Op, part string, n int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults.named = append(m.faults.named, namedFault{op, part, n, err})
}

// StopAt ends the process, as seen from the disk, in the n-th changing operation from
// now: it and all operations after it fail with [ErrStopped]. ClearFaults starts the next
// process, which sees all that was written, synced or not.
func (m *Mem) StopAt(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults.stopAt = m.faults.ops + n
}

// ClearFaults forgets all faults that were asked for.
func (m *Mem) ClearFaults() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = faults{ops: m.faults.ops}
}

// Before sets a hook that runs before every changing operation, without locks held, so
// that it may take a crash clone. Nil removes it.
func (m *Mem) Before(hook func(op Op, name string)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before = hook
}

// begin runs the hook and the faults. It returns with m.mu held if the operation may continue.
func (m *Mem) begin(op Op, name string) error {
	if op.changes() {
		m.mu.Lock()
		hook := m.before
		m.mu.Unlock()
		if hook != nil {
			hook(op, name)
		}
	}
	m.mu.Lock()
	if err := m.faults.hit(op, name); err != nil {
		m.mu.Unlock()
		return fmt.Errorf("%s %s: %w", op, name, err)
	}
	return nil
}

func (f *faults) hit(op Op, name string) error {
	if op.changes() {
		f.ops++
	}
	if f.stopAt > 0 && f.ops >= f.stopAt {
		if f.ops == f.stopAt && op.changes() {
			return errStoppedNow
		}
		return ErrStopped
	}
	if op.changes() {
		if err := f.at[f.ops]; err != nil {
			delete(f.at, f.ops)
			return err
		}
	}
	if errs := f.next[op]; len(errs) > 0 {
		f.next[op] = errs[1:]
		return errs[0]
	}
	for i := range f.named {
		n := &f.named[i]
		if n.op == op && n.left != 0 && strings.Contains(name, n.part) {
			n.left = max(n.left-1, -1)
			return n.err
		}
	}
	return f.always[op]
}
