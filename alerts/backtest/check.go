package backtest

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/wal"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/slo/spec"
)

// check replays the log as the engine counted it, by the spec of each time, and compares the alert states of every tick
// that the engine logged.
type check struct {
	Checked
	since   int64         // from then on the replay knows as much as the engine did
	longest time.Duration // that counts of the spec in force reach back
	known   bool          // the spec in force
}

// Checked is what a check prints.
type Checked struct {
	From        time.Time   `json:"from"` // of the records
	To          time.Time   `json:"to"`
	Records     uint64      `json:"records"`
	Events      uint64      `json:"events"`
	Ticks       int         `json:"ticks"`     // that the engine logged
	Compared    int         `json:"compared"`  // of them
	Processes   int         `json:"processes"` // that logged ticks
	Refused     uint64      `json:"refused"`   // ticks that the engine did not make, since its clock could not be believed
	Differences int         `json:"differences"`
	First       *Difference `json:"first_difference"`
	Missing     []string    `json:"missing"`
	Notes       []string    `json:"notes"`
}

// Difference is a tick that left other alert states than the replay of it.
type Difference struct {
	Time   time.Time `json:"time"`
	Record uint64    `json:"record"` // the last that it saw
	Alerts []string  `json:"replayed_alerts"`
}

// checking makes a replay one that compares.
func (r *replay) checking() error {
	r.check = &check{}
	t := &tally{state: counting.FoldState{Counters: counter.NewTable()}}
	r.tallies = append(r.tallies, t)
	l := newLane("engine", &spec.Spec{})
	l.tally = t
	return r.start(l, counting.Inputs(l.spec))
}

// follow takes the spec of a config record.
func (c *check) follow(r *replay, rec *wal.Record) error {
	l := r.lanes[0]
	l.tally.sums = nil
	if err := l.tally.state.Apply(*rec, func(int, []byte, string) {}); err != nil {
		r.broken++ // the engine refused it, too, and kept its spec
		return nil
	}
	text, err := counting.SpecOf(rec.Payload)
	if err != nil {
		return fmt.Errorf("record %d: %w", rec.Seq, err)
	}
	if c.known = text != ""; !c.known {
		return nil
	}
	sp, problems := spec.Load([]spec.File{{Name: fmt.Sprintf("spec of record %d", rec.Seq), Data: []byte(text)}})
	if err := problems.Err(); err != nil {
		return err
	}
	l.spec = sp
	in := counting.Inputs(sp)
	cfg, err := evaluator.Compile(in)
	if err != nil {
		return err
	}
	c.longest = 0
	for i := range cfg.Indicators {
		c.longest = max(c.longest, cfg.Indicators[i].Retention)
	}
	if c.since == 0 && r.firstSeq > 1 { // its windows reach back before the oldest record
		c.since = rec.Time + int64(c.longest)
	}
	return l.eval.SetSpec(in)
}

// rebuilt notes that the engine went on with counts that the replay does not have: their file is gone with the next
// checkpoint.
func (c *check) rebuilt(rec *wal.Record) {
	if b, err := record.ParseRebuilt(rec.Payload); err == nil && b.Kind == record.RebuiltTaken {
		c.since = rec.Time + int64(c.longest)
	}
}

// compare compares the states behind a tick.
func (c *check) compare(r *replay, t *record.Tick, late bool) {
	c.Ticks++
	c.Refused += t.Refused
	if t.Started {
		c.Processes++
	}
	if late || !c.known || t.Time < c.since {
		return
	}
	c.Compared++
	m := r.lanes[0].machine
	if m.Hash() == t.States {
		return
	}
	if c.Differences++; c.First != nil {
		return
	}
	c.First = &Difference{Time: time.Unix(0, t.Time).UTC(), Record: t.Folded, Alerts: []string{}}
	for _, a := range m.View().Active {
		c.First.Alerts = append(c.First.Alerts,
			fmt.Sprintf("%s %s %s since %s", a.Name, a.SLO, a.State, TimeText(a.ActiveSince)))
	}
}

// checked is the outcome.
func (r *replay) checked() *Checked {
	out := &r.check.Checked
	out.From, out.To, out.Records, out.Events = r.first, r.end, r.records, r.events
	out.Missing = append([]string{}, missing(r.gaps, r.moreGaps)...)
	out.Notes = []string{"Not compared, since their inputs are not in the log: alerts on the engine itself and on " +
		"forecasts."}
	note := func(format string, args ...any) { out.Notes = append(out.Notes, fmt.Sprintf(format, args...)) }
	if n := out.Ticks - out.Compared; n > 0 {
		note("%s not compared: their windows begin before the oldest record or before counts were rebuilt, or the log could "+
			"not be written in time.", plural(n, "tick"))
	}
	if r.broken > 0 {
		note("%s refused, as by the engine, or cannot be read.", plural(int(r.broken), "record"))
	}
	return out
}

// Summary is the outcome in a line, and the first difference.
func (c *Checked) Summary() (lines []string) {
	lines = append(lines, fmt.Sprintf("%s compared, %s.", plural(c.Compared, "tick"),
		plural(c.Differences, "difference")),
		fmt.Sprintf("From %s to %s: %s, %s of the engine.", TimeText(c.From), TimeText(c.To),
			plural(int(c.Events), "event"), plural(c.Processes, "start")))
	if c.Refused > 0 {
		lines = append(lines, fmt.Sprintf("The engine did not make %s, since its clock could not be believed.",
			plural(int(c.Refused), "tick")))
	}
	if d := c.First; d != nil {
		lines = append(lines, fmt.Sprintf("The first difference is at %s, behind record %d. The replay has these alerts: %s.",
			TimeText(d.Time), d.Record, cmp.Or(strings.Join(d.Alerts, ", "), "none")))
	}
	return lines
}
