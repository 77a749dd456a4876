package reports

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/api/v1"
)

// maxShown bounds the differences that are listed.
const maxShown = 100

// Verified is what the log says about a report.
type Verified struct {
	Period   string    `json:"period"`
	Position uint64    `json:"position"`
	First    uint64    `json:"oldest_record"`
	Since    time.Time `json:"oldest_received"`

	// Log is "equal", "differs", or "unknown" if the records up to the position, or the digest, are not retained.
	Log     string   `json:"log"`
	Why     string   `json:"log_reason,omitempty"`
	Damaged []string `json:"damaged,omitempty"` // ranges of the history

	Equal       bool         `json:"equal"` // all that could be computed
	Differences []Difference `json:"differences"`
	More        int          `json:"more_differences,omitempty"`
	Unknown     []string     `json:"not_computed,omitempty"` // what does not follow from what is left of the log

	// Rebuilt are SLOs of the report whose counts were replaced by rebuilt ones.
	Rebuilt []Takeover `json:"rebuilt,omitempty"`

	Until   uint64   `json:"changes_until"` // the last record
	Specs   []uint64 `json:"spec_records"`  // that were written since
	Changes []Change `json:"changes"`
}

// Difference is a place of the file that does not follow from the log.
type Difference struct {
	Place string `json:"place"`
	File  any    `json:"file"`
	Log   any    `json:"log"`
}

// Change is what the numbers of an SLO's group became. Sent and the parts add up to Now.
type Change struct {
	SLO         slo.ID `json:"slo"`
	Group       string `json:"group,omitempty"`
	Sent        Signed `json:"sent"`
	Events      Signed `json:"events"`      // that were received or replayed since, less those of forgotten services
	Spec        Signed `json:"spec"`        // by another definition
	Corrections Signed `json:"corrections"` // by other planned maintenance
	Now         Signed `json:"now"`
}

// Signed are good and bad events or slices.
type Signed struct {
	Good int64 `json:"good"`
	Bad  int64 `json:"bad"`
}

func (a Signed) minus(b Signed) Signed { return Signed{a.Good - b.Good, a.Bad - b.Bad} }

func signed(b *slo.Budget) Signed { return Signed{int64(b.Counts.Good), int64(b.Counts.Bad)} }

// Verify compares the JSON of a report with the log. The error is about the file, or of the disk.
func (p *Past) Verify(ctx context.Context, file []byte) (*Verified, error) {
	var have v1.PeriodReport
	if err := json.Unmarshal(file, &have); err != nil {
		return nil, fmt.Errorf("not the JSON of a report: %w", err)
	}
	if have.Log == nil || have.Log.Position == 0 {
		return nil, fmt.Errorf("the report does not say of which records it was made (log.position): " +
			"verify one that was sent, or that report --data-dir made")
	}
	ask := report.Query{Service: have.Service, Agreement: slo.ID(have.Agreement)}
	var err error
	if ask.Period, err = report.ParsePeriod(have.Period); err != nil {
		return nil, err
	}
	if have.Zone != "" {
		if ask.Zone, err = time.LoadLocation(have.Zone); err != nil {
			return nil, fmt.Errorf("zone: %w", err)
		}
	}
	out := &Verified{Period: have.Period, Position: have.Log.Position, Differences: []Difference{}, Specs: []uint64{},
		Changes: []Change{}}
	var (
		text []byte
		sent map[changeKey]*report.SLO
		then Known
	)
	book := incident.NewBook().View()
	w, err := p.walk(ctx, 2, have.Log.Position, true, func(w *walk) error {
		book = w.lanes[0].state.Incidents.View()
		made, err := w.lanes[0].written(ctx, p.Source, w, ask, have.Log.Evaluated, func(from *report.Source) {
			if have.Accounts == nil {
				return // its ledgers are not compared
			}
			from.LedgerOptions = report.LedgerOptions{Accounts: have.Accounts,
				Deployment: time.Duration(have.Deployment * float64(time.Second))}
			// Those that were deleted since are not there.
			from.Annotations = report.MadeBy(have.Log.Evaluated, p.annotations)
		})
		if err != nil {
			return err
		}
		text, then = made.JSON, w.Known
		then.Rebuilt = maps.Clone(w.Rebuilt)
		sent, err = w.lanes[0].numbers(ctx, ask, have.Log.Evaluated)
		return err
	})
	if err != nil {
		return nil, err
	}
	out.First, out.Since, out.Until = w.First, w.Since, w.Last
	out.Specs = append(out.Specs, w.rules...)
	if err := p.checkLog(ctx, out, have.Log); err != nil {
		return nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(then.Rebuilt)) {
		if slices.ContainsFunc(have.SLOs, func(x v1.ReportSLO) bool { return x.ID == id }) {
			out.Rebuilt = append(out.Rebuilt, then.Rebuilt[id])
		}
	}
	if err := out.compare(&then, book, file, text); err != nil {
		return nil, err
	}
	out.Equal = out.Log != "differs" && len(out.Damaged) == 0 && len(out.Differences) == 0
	later := have.Log.Evaluated
	if w.End.After(later) {
		later = w.End
	}
	frozen, err := w.lanes[0].numbers(ctx, ask, later)
	if err != nil {
		return nil, err
	}
	now, err := w.lanes[1].numbers(ctx, ask, later)
	if err != nil {
		return nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(w.Rebuilt)) {
		if !w.lost(id) {
			continue
		}
		gone := func(k changeKey, _ *report.SLO) bool { return k.id == id }
		maps.DeleteFunc(sent, gone)
		maps.DeleteFunc(frozen, gone)
		maps.DeleteFunc(now, gone)
		if _, known := then.Rebuilt[id]; !known {
			out.Unknown = append(out.Unknown, "changes: "+w.rebuilt(id))
		}
	}
	out.change(sent, frozen, now)
	return out, nil
}

// checkLog compares the history with its digests, and the log with that of the report.
func (p *Past) checkLog(ctx context.Context, out *Verified, of *v1.ReportLog) error {
	found, err := p.Source.Check(ctx, of.Position)
	if err != nil {
		return err
	}
	for _, g := range found.Changed {
		out.Damaged = append(out.Damaged, fmt.Sprintf("records %d to %d: %s", g.First, g.Next-1, g.Reason))
	}
	if of.Digest == "" {
		out.Log, out.Why = "unknown", "the report has no digest: its log was not retained"
		return nil
	}
	sum, err := p.Source.Digest(ctx, of.Position)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		out.Log, out.Why = "unknown", err.Error()
	case sum.String() == of.Digest:
		out.Log = "equal"
	default:
		out.Log, out.Why = "differs", fmt.Sprintf("the digest of records up to %d is %s in the log, and %s in the report",
			of.Position, sum, of.Digest)
	}
	return nil
}

// compared are the fields of a report that follow from the log.
var compared = []string{"period", "unit", "service", "agreement", "zone", "begun", "running", "slos", "slas",
	"thresholds", "limits", "costs"}

// other are fields of lines that are not compared field by field: a forecast is drawn from past hours at its time.
var other = []string{"forecast", "ledger"}

func (x *Verified) compare(k *Known, book *incident.View, file, computed []byte) error {
	read := func(data []byte) (out map[string]any, err error) {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		return out, d.Decode(&out)
	}
	have, err := read(file)
	if err != nil {
		return err
	}
	want, err := read(computed)
	if err != nil {
		return err
	}
	for _, name := range compared {
		a, b := have[name], want[name]
		if k.anyLost() && (name == "slas" || name == "costs") {
			x.Unknown = append(x.Unknown, name+": they have rebuilt counts")
			continue
		}
		lines, ok := a.([]any)
		made, okay := b.([]any)
		if !ok || !okay || len(lines) != len(made) {
			x.diff(name, a, b)
			continue
		}
		for i := range lines {
			x.line(k, fmt.Sprintf("%s[%d]", name, i), lines[i], made[i])
		}
	}
	x.incidents(k, have["incidents"], want["incidents"])
	x.ledgers(k, book, have, want)
	return nil
}

// incidents compares those of the report. What they cost is known from their end on.
func (x *Verified) incidents(k *Known, file, log any) {
	a, ok := file.(map[string]any)
	b, okay := log.(map[string]any)
	if !ok || !okay {
		if file != nil {
			x.Unknown = append(x.Unknown, "incidents: those of the time are not in what is left of the log")
		}
		return
	}
	byID := func(m map[string]any) map[string]map[string]any {
		out := map[string]map[string]any{}
		list, _ := m["items"].([]any)
		for _, i := range list {
			if item, ok := i.(map[string]any); ok {
				out[fmt.Sprint(item["id"])] = item
			}
		}
		return out
	}
	have, made := byID(a), byID(b)
	earlier := false
	for _, id := range slices.Sorted(maps.Keys(merged(have, made))) {
		f, l, place := have[id], made[id], "incidents["+id+"]"
		detected, _ := f["detected"].(string)
		switch at, err := time.Parse(time.RFC3339Nano, detected); {
		case f != nil && l == nil && k.First != 1 && err == nil && at.Before(k.Since):
			earlier = true
			x.Unknown = append(x.Unknown, place+": it was detected before the oldest record that is retained")
		case f == nil || l == nil:
			x.differs(place, f, l)
		default:
			for _, field := range slices.Sorted(maps.Keys(merged(f, l))) {
				if (field == "budget_spent" || field == "cost") && l[field] == nil && f[field] != nil {
					x.Unknown = append(x.Unknown, place+"."+field+": the incident was open, and its cost that of the minute")
					continue
				}
				x.diff(place+"."+field, f[field], l[field])
			}
		}
	}
	for _, field := range slices.Sorted(maps.Keys(merged(a, b))) {
		switch {
		case field == "items":
		case earlier || field == "previous" && k.First != 1:
			x.Unknown = append(x.Unknown, "incidents."+field+": some were detected before the oldest record that is retained")
		default:
			x.diff("incidents."+field, a[field], b[field])
		}
	}
}

// ledgers compares the budget ledgers, and says which lines have forecasts.
func (x *Verified) ledgers(k *Known, book *incident.View, have, want map[string]any) {
	lines, _ := have["slos"].([]any)
	made, _ := want["slos"].([]any)
	forecasts := 0
	for i := range min(len(lines), len(made)) {
		a, _ := lines[i].(map[string]any)
		b, _ := made[i].(map[string]any)
		if a["forecast"] != nil {
			forecasts++
		}
		place := fmt.Sprintf("slos[%d].ledger", i)
		id := slo.ID(fmt.Sprint(name(b)))
		from, _ := b["from"].(string)
		at, err := time.Parse(time.RFC3339Nano, from)
		switch {
		case a["ledger"] == nil && b["ledger"] == nil || k.lost(id) || err != nil || !k.Covers(at):
			// Nothing is charged, or the whole line is named already.
		case have["accounts"] == nil:
			x.Unknown = append(x.Unknown, place+": an earlier version wrote it, without the order of the accounts")
		default:
			if old := missing(book, a["ledger"]); old != "" && k.First != 1 {
				x.Unknown = append(x.Unknown, place+": incident "+old+" began before the oldest record that is retained")
				continue
			}
			x.diff(place, a["ledger"], b["ledger"])
		}
	}
	if forecasts > 0 {
		x.Unknown = append(x.Unknown,
			fmt.Sprintf("forecast of %d lines: it is of the hours and the model of its time", forecasts))
	}
}

// missing is the first incident of a ledger that a book does not have.
func missing(book *incident.View, ledger any) string {
	l, _ := ledger.(map[string]any)
	lines, _ := l["lines"].([]any)
	for i := range lines {
		x, _ := lines[i].(map[string]any)
		id, _ := x["name"].(string)
		if x["account"] == string(slo.AccountIncident) && book.Get(id) == nil {
			return id
		}
	}
	return ""
}

// line compares a line. One that begins before the log has its whole days compared.
func (x *Verified) line(k *Known, place string, file, log any) {
	a, ok := file.(map[string]any)
	b, okay := log.(map[string]any)
	if !ok || !okay {
		x.diff(place, file, log)
		return
	}
	if id := slo.ID(fmt.Sprint(name(b))); k.lost(id) {
		x.Unknown = append(x.Unknown, place+": "+k.rebuilt(id))
		return
	}
	from, _ := b["from"].(string)
	if at, err := time.Parse(time.RFC3339Nano, from); err == nil && !k.Covers(at) {
		x.Unknown = append(x.Unknown, fmt.Sprintf("%s (%v): counts before %s", place, name(b), k.Since.Format(time.RFC3339)))
		zone, err := time.LoadLocation(fmt.Sprint(b["zone"]))
		if err != nil {
			zone = time.UTC
		}
		first := k.Since.In(zone).AddDate(0, 0, 1).Format(time.DateOnly)
		x.diff(place+".days", daysFrom(a["days"], first), daysFrom(b["days"], first))
		return
	}
	for _, field := range slices.Sorted(maps.Keys(merged(a, b))) {
		if !slices.Contains(other, field) {
			x.diff(place+"."+field, a[field], b[field])
		}
	}
}

func name(line map[string]any) any {
	if id, ok := line["id"]; ok {
		return id
	}
	return line["name"]
}

// daysFrom leaves out shares, which are of the whole period.
func daysFrom(days any, first string) (out []any) {
	list, _ := days.([]any)
	for _, d := range list {
		day, _ := d.(map[string]any)
		if date, _ := day["date"].(string); date >= first {
			day = maps.Clone(day)
			delete(day, "share_of_loss")
			out = append(out, day)
		}
	}
	return out
}

func merged[T any](a, b map[string]T) map[string]T {
	out := map[string]T{}
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// diff descends to what differs.
func (x *Verified) diff(place string, file, log any) {
	if reflect.DeepEqual(file, log) {
		return
	}
	switch a := file.(type) {
	case map[string]any:
		if b, ok := log.(map[string]any); ok {
			for _, field := range slices.Sorted(maps.Keys(merged(a, b))) {
				x.diff(place+"."+field, a[field], b[field])
			}
			return
		}
	case []any:
		if b, ok := log.([]any); ok && len(a) == len(b) {
			for i := range a {
				x.diff(fmt.Sprintf("%s[%d]", place, i), a[i], b[i])
			}
			return
		}
	}
	x.differs(place, file, log)
}

func (x *Verified) differs(place string, file, log any) {
	if len(x.Differences) == maxShown {
		x.More++
		return
	}
	x.Differences = append(x.Differences, Difference{place, file, log})
}

type changeKey struct {
	id    slo.ID
	group string
}

// numbers are the lines of a report.
func (l *lane) numbers(ctx context.Context, ask report.Query, at time.Time) (map[changeKey]*report.SLO, error) {
	out := map[changeKey]*report.SLO{}
	err := AsOf(ctx, l.state.Fold, counting.Inputs(l.spec), at, func(rep *sla.Report, from report.Source) error {
		r, err := new(report.Maker).Make(ctx, from, rep, ask)
		if err != nil {
			return err
		}
		for i := range r.SLOs {
			x := &r.SLOs[i]
			out[changeKey{x.Now.SLO.ID, groupText(x.Now)}] = x
		}
		return nil
	})
	return out, err
}

func groupText(r *sla.SLOReport) string {
	parts := make([]string, len(r.Group))
	for i, v := range r.Group {
		parts[i] = v
		if i < len(r.SLO.GroupBy) {
			parts[i] = r.SLO.GroupBy[i] + "=" + v
		}
	}
	return strings.Join(parts, "; ")
}

// change says what changed between the report and now. frozen is now by the spec of the report.
func (x *Verified) change(sent, frozen, now map[changeKey]*report.SLO) {
	counts := func(m map[changeKey]*report.SLO, k changeKey) (raw, net Signed) {
		if l := m[k]; l != nil {
			return signed(&l.Raw), signed(&l.Net)
		}
		return Signed{}, Signed{}
	}
	keys := maps.Clone(sent)
	maps.Copy(keys, frozen)
	maps.Copy(keys, now)
	for k := range keys {
		c := Change{SLO: k.id, Group: k.group}
		sentRaw, sentNet := counts(sent, k)
		frozenRaw, _ := counts(frozen, k)
		nowRaw, nowNet := counts(now, k)
		c.Sent, c.Now = sentNet, nowNet
		c.Events, c.Spec = frozenRaw.minus(sentRaw), nowRaw.minus(frozenRaw)
		c.Corrections = c.Now.minus(nowRaw).minus(c.Sent.minus(sentRaw))
		if c.Events != (Signed{}) || c.Spec != (Signed{}) || c.Corrections != (Signed{}) {
			x.Changes = append(x.Changes, c)
		}
	}
	order.By(x.Changes, func(a, b *Change) int {
		return cmp.Or(cmp.Compare(a.SLO, b.SLO), cmp.Compare(a.Group, b.Group))
	})
}
