// Package rejects records recently rejected events: how many events of which code, from whom, and a sample of each.
// It is a table for operators who look for the faulty sender, and for a spec that is to count what an earlier one did
// not know. Its counts outlast the process, its senders and samples do not.
//
// It costs nothing while nothing is rejected. It does not know why something is rejected, and decides nothing.
package rejects

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/valyala/fastjson"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/health"
	"github.com/sloengine/sloengine/reliability/metric"
)

// The bounds of a Table. With the longest texts it has 200 KiB.
const (
	maxCodes   = 64
	maxPerCode = 20  // senders
	maxRows    = 200 // senders of all codes
	maxSample  = 512 // bytes
	maxDetail  = 300
	maxName    = 128
	// sampleEvery is how old a sample gets before it is replaced, so that a flood of bad events costs little.
	sampleEvery = 10 * time.Second
)

// Sender is who sent something: the name of a token, or without one an address.
type Sender struct {
	Token   string `json:"token,omitempty"`
	Address string `json:"address,omitempty"` // without a token
}

// Code is everything that was rejected with a code.
type Code struct {
	Code     string    `json:"code"`
	Events   uint64    `json:"events"`   // single events
	Requests uint64    `json:"requests"` // refused as a whole
	Since    time.Time `json:"since"`    // of the first
	Last     time.Time `json:"last"`
	Senders  []Row     `json:"senders"` // since the start, the latest first
	Others   uint64    `json:"others"`  // events and requests of senders that are not listed
}

// Row counts the events of one sender that were rejected with one code, for one service.
type Row struct {
	Sender
	Service string    `json:"service,omitempty"` // as the event names it; "" if absent
	Count   uint64    `json:"count"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Detail  string    `json:"detail"`           // problem of the latest sample
	Sample  string    `json:"sample,omitempty"` // its JSON, shortened and redacted; "" if there is none

	sampled time.Time
}

// Table holds recently rejected events. It is safe for concurrent use. A nil Table remembers
// nothing.
type Table struct {
	hide func() bool
	now  func() time.Time

	file   fsys.StateFile[file]
	saving health.Log
	saved  uint64 // changes in the file

	failures  *metrics.Counter // of writes
	uncounted *metric.PerName[*metrics.Counter]

	mu      sync.Mutex // guards the rest
	codes   map[string]*Code
	rows    int
	types   []Type
	seq     uint64 // the last record of the log whose uncounted events are in types
	changes uint64
}

// New makes a Table. While hide says so, samples have no values of attributes, no ids and no unknown fields.
func New(hide func() bool, now func() time.Time) *Table {
	return &Table{hide: hide, now: now, codes: map[string]*Code{}}
}

// Events notes the rejected events of a batch, whose errors point into body. Their details must be redacted already.
func (t *Table) Events(s Sender, body []byte, b *event.Batch) {
	if t == nil || b.Rejected == 0 && len(b.Unknown) == 0 {
		return
	}
	now, hide := t.now(), t.hide()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unknown(b.Unknown, false, now)
	var p fastjson.Parser
	service := map[event.Code]string{} // of the last listed error with the code
	for i := range b.Errors {
		e := &b.Errors[i]
		var raw []byte
		if e.From >= 0 && e.From < e.To && e.To <= len(body) {
			raw = body[e.From:e.To]
		}
		v, err := p.ParseBytes(raw)
		if err != nil {
			v = nil
		}
		name := ""
		if v != nil {
			name = clean(string(v.GetStringBytes("service")), maxName)
		}
		service[e.Code] = name
		r := t.count(string(e.Code), s, name, 1, false, now)
		if r != nil && now.Sub(r.sampled) >= sampleEvery {
			r.sampled, r.Detail = now, clean(e.Detail, maxDetail)
			if r.Sample = clean(string(raw), maxSample); hide {
				r.Sample = shape(v)
			}
		}
	}
	for _, run := range b.Unlisted {
		t.count(string(run.Code), s, service[run.Code], uint64(run.To-run.From+1), false, now)
	}
}

// Request notes a request that was refused as a whole.
func (t *Table) Request(s Sender, code, detail string) {
	if t == nil {
		return
	}
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.count(code, s, "", 1, true, now); r != nil {
		r.Detail = clean(detail, maxDetail)
	}
}

// count adds n to a code and to the row of the sender, which it returns. t.mu is held.
func (t *Table) count(code string, s Sender, service string, n uint64, request bool, now time.Time) *Row {
	t.changes++
	c := t.codes[code]
	if c == nil {
		if len(t.codes) >= maxCodes {
			return nil
		}
		c = &Code{Code: code, Since: now}
		t.codes[code] = c
	}
	c.Last = now
	if request {
		c.Requests += n
	} else {
		c.Events += n
	}
	at := slices.IndexFunc(c.Senders, func(r Row) bool { return r.Sender == s && r.Service == service })
	if at < 0 {
		if len(c.Senders) >= maxPerCode {
			t.evict(c)
		} else if t.rows >= maxRows {
			t.evict(t.stalest())
		}
		c.Senders = append(c.Senders, Row{Sender: s, Service: service, First: now})
		t.rows++
		at = len(c.Senders) - 1
	}
	r := &c.Senders[at]
	r.Count += n
	r.Last = now
	return r
}

// evict removes the row of a code that was quiet for longest.
func (t *Table) evict(c *Code) {
	at := 0
	for i := range c.Senders {
		if c.Senders[i].Last.Before(c.Senders[at].Last) {
			at = i
		}
	}
	c.Others += c.Senders[at].Count
	c.Senders = slices.Delete(c.Senders, at, at+1)
	t.rows--
}

// stalest is the code with the row that was quiet for longest.
func (t *Table) stalest() *Code {
	var out *Code
	var oldest time.Time
	for _, c := range t.codes {
		for i := range c.Senders {
			if out == nil || c.Senders[i].Last.Before(oldest) {
				out, oldest = c, c.Senders[i].Last
			}
		}
	}
	return out
}

// Snapshot copies the table: the code that was rejected last first. Its times are in whole milliseconds.
func (t *Table) Snapshot() []Code {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]Code, 0, len(t.codes))
	for _, c := range t.codes {
		copied := *c
		copied.Since, copied.Last = shownTime(c.Since), shownTime(c.Last)
		copied.Senders = append([]Row{}, c.Senders...)
		for i := range copied.Senders {
			r := &copied.Senders[i]
			r.First, r.Last = shownTime(r.First), shownTime(r.Last)
		}
		order.By(copied.Senders, func(a, b *Row) int { return b.Last.Compare(a.Last) })
		out = append(out, copied)
	}
	order.By(out, func(a, b *Code) int { return cmp.Or(b.Last.Compare(a.Last), strings.Compare(a.Code, b.Code)) })
	return out
}

func shownTime(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// Samples is the number of samples in which a text stands. With erase they are removed. Counts stay.
func (t *Table) Samples(text string, erase bool) (n int) {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.codes {
		for i := range c.Senders {
			r := &c.Senders[i]
			if !strings.Contains(r.Sample, text) && !strings.Contains(r.Detail, text) {
				continue
			}
			if n++; erase {
				r.Sample, r.Detail = "", ""
			}
		}
	}
	return n
}

// clean is a text that takes at most that many bytes of memory, as a copy.
func clean(text string, most int) string {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strings.Clone(strings.ToValidUTF8(text, "\uFFFD"))
}

// shown are the fields of an event that never are personal data.
var shown = []string{"time", "service", "type", "outcome", "severity", "duration_ms", "duration", "count"}

// shape is an event without the parts that redaction rules may cover: values of attributes, its id, and fields that
// are not those of an event. It is made from a copy.
func shape(v *fastjson.Value) string {
	if v == nil || v.Type() != fastjson.TypeObject {
		return ""
	}
	var a fastjson.Arena
	out := a.NewObject()
	for _, name := range shown {
		if x := v.Get(name); x != nil && x.Type() != fastjson.TypeObject && x.Type() != fastjson.TypeArray {
			out.Set(name, x)
		}
	}
	if attributes := v.GetObject("attributes"); attributes != nil {
		names := a.NewObject()
		attributes.Visit(func(key []byte, _ *fastjson.Value) { names.Set(string(key), a.NewString("(redacted)")) })
		out.Set("attributes", names)
	}
	return clean(string(out.MarshalTo(nil)), maxSample)
}
