package series

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/event"
)

// tally makes events of samples, whether they were read or received. From begin until the engine has the batch in its
// table, no other tally of the same units may be in use.
type tally struct {
	batch   *counter.Batch
	decoder event.Decoder
	events  event.Batch
	hash    xxh3.Hasher
	sums    map[cell]*sum
	scrape  time.Duration
	id      uint64
	found   Found
	old     bool   // what is read is history
	left    string // why a part of what was read is not counted; "": all is
}

// cell is where events of one SLO are counted.
type cell struct {
	plan  *plan
	slo   int
	at    int64 // Unix nanoseconds, a multiple of step
	group string
}

type sum struct {
	values      []string
	total, part uint64
}

const (
	// step is the resolution in which events are counted, that of the finest windows, and oldStep that of history.
	step, oldStep = int64(10 * time.Second), int64(5 * time.Minute)
	// maxBatchBytes bounds what one reading writes: it must fit one record.
	maxBatchBytes = 4 << 20
)

func newTally(counters *counter.Table, scrape time.Duration) tally {
	return tally{batch: counter.NewBatch(counters), sums: map[cell]*sum{}, scrape: scrape}
}

func (t *tally) begin() {
	t.batch.Begin()
	clear(t.sums)
	t.found = Found{}
}

// count adds what the samples of one series say to the sums.
func (t *tally) count(p *plan, one *oneSeries, both, isPart bool) {
	series, target := one.labels.hash(&t.hash)
	if isPart { // also where a series is one of the total
		series ^= p.part.key.Lo
	}
	for _, sample := range one.points {
		if !(sample.n >= 0 && sample.n < 1<<63) {
			continue // a stale marker is NaN
		}
		x := counter.Point{Class: p.class, Metric: p.total.key, Source: target, Series: series, Time: sample.at,
			Counts: counter.Counts{Count: uint64(sample.n)}}
		verdict := t.batch.Observe(&x)
		gap := verdict == counter.Adds && x.Before > 0 && sample.at-x.Before > gapScrapes*int64(t.scrape)
		t.found.note(&x, verdict, gap)
		switch verdict {
		case counter.Adds:
			t.batch.Keep()
		case counter.Baseline:
			t.batch.Keep()
			continue
		case counter.Full:
			t.left = fmt.Sprintf("the last samples of all series take %d MiB, and more are not counted: select fewer",
				counter.MaxBytes>>20)
			continue
		default:
			continue
		}
		if n := x.Count; n > 0 {
			at := sample.at
			if gap {
				at -= (at - x.Before) / 2 // nobody knows when
			}
			width := step
			if t.old {
				width = oldStep
			}
			t.add(p, one.labels, at-at%width, n, both, isPart)
		}
	}
}

// add counts n events of a series for all SLOs of the unit.
func (t *tally) add(p *plan, of seriesLabels, at int64, n uint64, both, isPart bool) {
	for i := range p.SLOs {
		var values []string
		for _, name := range p.SLOs[i].GroupBy {
			values = append(values, of.get(name))
		}
		c := cell{p, i, at, strings.Join(values, "\xff")}
		to := t.sums[c]
		if to == nil {
			to = &sum{values: values}
			t.sums[c] = to
		}
		if !isPart {
			to.total += n
		}
		if isPart || both {
			to.part += n
		}
	}
}

// write makes events of the sums.
func (t *tally) write(now time.Time, limits event.SizeLimits, longest time.Duration) error {
	limits.MaxBackfill = longest + 2*oldSlice
	t.decoder.Begin(event.DecodeOptions{Now: now, SizeLimits: limits, AppendID: t.appendID, Backfill: t.old}, &t.events)
	for _, c := range slices.SortedFunc(maps.Keys(t.sums), func(a, b cell) int {
		return cmp.Or(strings.Compare(a.plan.Stream, b.plan.Stream), cmp.Compare(a.at, b.at), cmp.Compare(a.slo, b.slo),
			strings.Compare(a.group, b.group))
	}) {
		x := t.sums[c]
		bad := min(x.part, x.total)
		t.found.cut(c.at, c.plan.SLOs[c.slo].GroupBy, x.values, x.part-bad)
		if c.plan.Good {
			bad = x.total - bad
		}
		t.draft(&c.plan.SLOs[c.slo], x, c.at, event.Failure, bad)
		t.draft(&c.plan.SLOs[c.slo], x, c.at, event.Success, x.total-bad)
	}
	t.decoder.End()
	if len(t.events.Buf) > maxBatchBytes {
		return errTooLarge
	}
	return nil
}

func (t *tally) draft(of *SLO, x *sum, at int64, outcome event.Outcome, n uint64) {
	d := event.Draft{Service: []byte(of.Service), Type: []byte(of.Type), Outcome: outcome, Time: at, Weight: 1,
		Duration: event.NoDuration, Own: true, Once: true}
	for i, name := range of.Attributes {
		d.Attributes = append(d.Attributes, event.Attribute{Name: []byte(name), Value: []byte(x.values[i])})
	}
	slices.SortFunc(d.Attributes, func(a, b event.Attribute) int { return bytes.Compare(a.Name, b.Name) })
	for ; n > 0; n -= uint64(d.Count) {
		d.Count = uint32(min(n, math.MaxUint32))
		if code := t.decoder.Add(&d); code != "" {
			t.left = "events are rejected with the code " + string(code)
		}
	}
}

// appendID names an event, which has no identity: what is known of its series tells that it is new.
func (t *tally) appendID(dst []byte, _ int) []byte {
	t.id++
	return strconv.AppendUint(append(dst, "prometheus-"...), t.id, 36)
}
