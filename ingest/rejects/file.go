package rejects

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/internal/every"
	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/health"
	"github.com/sloengine/sloengine/reliability/metric"
)

// SaveEvery is how often a changed table is written. A kill loses what came after the last write.
const SaveEvery = 10 * time.Second

// fileVersion is the format of the file.
const fileVersion = 1

// file is the table on disk. Senders and samples are personal data, and stay in memory.
type file struct {
	Version int         `json:"version"`
	Seq     uint64      `json:"seq"` // the last record of which uncounted events are in Types
	Codes   []savedCode `json:"codes"`
	Types   []Type      `json:"types"`
}

type savedCode struct {
	Code     string    `json:"code"`
	Events   uint64    `json:"events"`
	Requests uint64    `json:"requests"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
}

func (f *file) check() error {
	if len(f.Codes) > maxCodes || len(f.Types) > maxTypes+maxCodes {
		return errors.New("more rows than a table has")
	}
	for _, x := range f.Types {
		if x.Events == 0 || x.DeadLetters > x.Events || x.Last.Before(x.First) || max(len(x.Service), len(x.Type)) > maxText {
			return errors.New("a row of types contradicts itself")
		}
	}
	for _, c := range f.Codes {
		if c.Code == "" || c.Events+c.Requests == 0 || c.Last.Before(c.First) || len(c.Code) > maxText {
			return errors.New("a row of codes contradicts itself")
		}
	}
	return nil
}

// maxText is how long a name is that clean has shortened.
const maxText = maxName + len("…")

// Open reads the file of an earlier process, which Run continues. last is the last record of the log. A damaged
// file is moved aside, and the table begins empty. The error is that the file is of a newer version, or that it cannot
// be opened for now.
func (t *Table) Open(files fsys.FS, name string, last uint64, set *metrics.Set, log *slog.Logger) error {
	t.file = fsys.StateFile[file]{
		Files: files, Name: name, What: "table of rejected events",
		Damaged: "table of rejected events is unreadable, starting with an empty one", Newest: fileVersion, Logger: log,
	}
	t.saving = health.Log{Logger: log, Level: slog.LevelWarn, Broken: "table of rejected events cannot be saved, retrying",
		Works: "table of rejected events is saved again"}
	t.failures = metric.RejectsSaveFailures.Counter(set)
	t.uncounted = metric.NewPerName(set, func(g *metric.Group, service string) *metrics.Counter {
		return g.Counter(metric.UncountedEvents, service)
	})
	f, err := t.file.Load((*file).check)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seq, t.types = min(f.Seq, last), f.Types // a log that was restored from a backup may be shorter
	for _, c := range f.Codes {
		t.codes[c.Code] = &Code{Code: c.Code, Events: c.Events, Requests: c.Requests, Since: c.First, Last: c.Last,
			Others: c.Events + c.Requests}
	}
	return nil
}

// Run writes the file until ctx ends, and then once more.
func (t *Table) Run(ctx context.Context) error {
	for range every.Later(ctx, SaveEvery) {
		t.save()
	}
	t.save()
	return nil
}

// save writes the file if the table changed.
func (t *Table) save() {
	t.mu.Lock()
	changes := t.changes
	if changes == t.saved {
		t.mu.Unlock()
		return
	}
	f := file{Version: fileVersion, Seq: t.seq, Types: slices.Clone(t.types)}
	for _, c := range t.codes {
		f.Codes = append(f.Codes, savedCode{c.Code, c.Events, c.Requests, c.Since, c.Last})
	}
	t.mu.Unlock()
	order.By(f.Codes, func(a, b *savedCode) int { return strings.Compare(a.Code, b.Code) })
	err := t.file.Save(f)
	if t.saving.Note(err); err != nil {
		t.failures.Inc()
		return
	}
	t.saved = changes // of this goroutine alone
}
