package incident

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var start = time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)

func page(name, slo string, fired time.Time) Operation {
	return Operation{Kind: Fire, Title: name, Onset: fired.Add(-3 * time.Minute), OnsetBy: OnsetByCounts, Alert: &Alert{
		Fingerprint: name, Name: name, Service: "shop", SLO: slo, Severity: Critical, Fired: fired,
	}}
}

func ticket(name, slo string, fired time.Time) Operation {
	o := page(name, slo, fired)
	o.Alert.Severity = Warning
	return o
}

func over(name string, at time.Time) Operation {
	return Operation{Kind: Clear, Alert: &Alert{Fingerprint: name, Resolved: at}}
}

func apply(t testing.TB, b *Book, at time.Time, ops ...Operation) {
	t.Helper()
	batch := Batch{Operations: ops}
	payload, err := batch.Encode()
	require.NoError(t, err)
	require.NoError(t, b.Apply(at, payload))
}

func ids(b *Book) (out []string) {
	for inc := range b.View().All() {
		out = append(out, fmt.Sprintf("%s %s %s %d", inc.ID, inc.Severity, inc.State, len(inc.Alerts)))
	}
	return out
}

func TestAlertsJoinAnIncident(t *testing.T) {
	b := NewBook()
	at := start
	apply(t, b, at, page("p1", "shop/a", at))
	apply(t, b, at.Add(9*time.Minute), page("p2", "shop/b", at.Add(9*time.Minute)))
	require.Equal(t, []string{"INC-2026-11-0001 critical open 2"}, ids(b))
	// More than 10 minutes after the last: another trouble, unless the same SLO still burns.
	apply(t, b, at.Add(20*time.Minute), page("p3", "shop/c", at.Add(20*time.Minute)),
		page("p4", "shop/a", at.Add(20*time.Minute)))
	require.Equal(t, []string{"INC-2026-11-0002 critical open 2", "INC-2026-11-0001 critical open 2"}, ids(b))
	// A warning joins a page's incident, and holds it open no longer than its pages.
	apply(t, b, at.Add(25*time.Minute), ticket("t1", "shop/c", at.Add(25*time.Minute)))
	apply(t, b, at.Add(26*time.Minute), over("p3", at.Add(26*time.Minute)), over("p4", at.Add(26*time.Minute)))
	require.Equal(t, []string{"INC-2026-11-0002 critical resolved 3", "INC-2026-11-0001 critical open 2"}, ids(b))
	apply(t, b, at.Add(30*time.Minute), over("t1", at.Add(30*time.Minute)))
	inc := b.View().Get("INC-2026-11-0002")
	require.Equal(t, at.Add(30*time.Minute), inc.Alerts[2].Resolved)
	require.Equal(t, at.Add(26*time.Minute), inc.Resolved.Time)
	require.Equal(t, 3*time.Minute, inc.Detection())

	// It begins again within 10 minutes: the same incident.
	apply(t, b, at.Add(36*time.Minute), page("p5", "shop/z", at.Add(36*time.Minute)))
	require.Equal(t, "INC-2026-11-0002 critical open 4", ids(b)[0])
	apply(t, b, at.Add(37*time.Minute), over("p5", at.Add(37*time.Minute)))
	apply(t, b, at.Add(48*time.Minute), page("p6", "shop/z", at.Add(48*time.Minute)))
	require.Equal(t, "INC-2026-11-0003 critical open 1", ids(b)[0])
}

func TestAPageRaisesAWarning(t *testing.T) {
	b := NewBook()
	apply(t, b, start, ticket("t1", "shop/a", start))
	apply(t, b, start.Add(time.Minute), Operation{Kind: AckIt, ID: "INC-2026-11-0001", By: "Ann", How: ByAPI})
	require.Equal(t, []string{"INC-2026-11-0001 warning acknowledged 1"}, ids(b))
	apply(t, b, start.Add(2*time.Minute), page("p1", "shop/a", start.Add(2*time.Minute)))
	require.Equal(t, []string{"INC-2026-11-0001 critical open 2"}, ids(b),
		"one fault, one incident, which nobody has acknowledged as a page")
	inc := b.View().Get("INC-2026-11-0001")
	require.Nil(t, inc.Ack)
	require.Equal(t, "p1", inc.Title)
	require.Equal(t, start, inc.Detected, "by the ticket")
	apply(t, b, start.Add(9*time.Minute), over("p1", start.Add(9*time.Minute)))
	require.Equal(t, []string{"INC-2026-11-0001 critical resolved 2"}, ids(b))
	other := page("p2", "shop/a", start.Add(time.Minute))
	other.Alert.Service = "billing"
	apply(t, b, start.Add(9*time.Minute), other)
	require.Equal(t, "INC-2026-11-0002 critical open 1", ids(b)[0])
}

func TestAKnownAlertOpensNothing(t *testing.T) {
	b := NewBook()
	apply(t, b, start, page("p1", "shop/a", start))
	apply(t, b, start, page("p1", "shop/a", start))
	apply(t, b, start, page("p1", "shop/a", start.Add(10*time.Second))) // after a crash before the alert states were saved
	apply(t, b, start, over("p1", start.Add(time.Minute)))
	apply(t, b, start, page("p1", "shop/a", start))
	require.Equal(t, []string{"INC-2026-11-0001 critical resolved 1"}, ids(b))
}

func TestOperationsByHand(t *testing.T) {
	b := NewBook()
	open := Operation{Kind: OpenByHand, Key: "k", Title: "Checkout fails", Service: "shop", Severity: Critical, By: "Ann",
		Onset: start.Add(-time.Hour)}
	apply(t, b, start, open, open)
	id := "INC-2026-11-0001"
	require.Equal(t, []string{id + " critical open 0"}, ids(b))
	before := b.View().Get(id)
	require.False(t, before.Automated)
	require.Equal(t, time.Hour, before.Detection())

	apply(t, b, start.Add(time.Minute), Operation{Kind: AckIt, ID: id, By: "Bob", Team: "ops", How: ByAPI})
	apply(t, b, start.Add(2*time.Minute), Operation{Kind: AckIt, ID: id, By: "Eve", How: ByAPI})
	inc := b.View().Get(id)
	require.Equal(t, Ack{start.Add(time.Minute), "Bob", "ops", ByAPI}, *inc.Ack)
	response, ok := inc.Response()
	require.True(t, ok)
	require.Equal(t, time.Minute, response)
	require.Equal(t, Open, before.State, "a published incident never changes")

	apply(t, b, start.Add(3*time.Minute), Operation{Kind: AddNote, ID: id, By: "Bob", Text: "db-7 is down"},
		Operation{Kind: AddUpdate, ID: id, By: "Ann", Text: "We are on it", Public: true},
		Operation{Kind: Publish, ID: id, Public: true},
		Operation{Kind: LinkPost, ID: id, Text: "https://wiki.example.org/1"}, Operation{Kind: ResolveIt, ID: id, By: "Ann"})
	inc = b.View().Get(id)
	require.Equal(t, Resolved, inc.State)
	require.True(t, inc.Public)
	require.Equal(t, "db-7 is down", inc.Notes[0].Text)
	require.True(t, inc.Updates[0].Public)
	require.Equal(t, "https://wiki.example.org/1", inc.PostMortem)
	require.Equal(t, Resolution{Time: start.Add(3 * time.Minute), By: "Ann"}, *inc.Resolved)

	// What a person resolved stays so.
	apply(t, b, start.Add(4*time.Minute), page("p1", "shop/a", start.Add(4*time.Minute)))
	require.Equal(t, "INC-2026-11-0002 critical open 1", ids(b)[0])
}

func TestErase(t *testing.T) {
	b := NewBook()
	id := "INC-2026-11-0001"
	apply(t, b, start, Operation{Kind: OpenByHand, Key: "k", Title: "Ann saw it", Severity: Critical, By: "Ann"},
		Operation{Kind: OpenByHand, Key: "l", Title: "other", Severity: Critical, By: "Bob"},
		Operation{Kind: AckIt, ID: id, By: "Ann", How: ByPage},
		Operation{Kind: AddNote, ID: id, By: "Bob", Text: "Ann rang me"},
		Operation{Kind: AddNote, ID: id, By: "Bob", Text: "restarted"},
		Operation{Kind: AddUpdate, ID: id, By: "Ann", Text: "works again"},
		Operation{Kind: EditIt, ID: id, By: "Ann", Title: "Ann fell asleep"},
		Operation{Kind: EditIt, ID: id, By: "Bob", Owner: "Ann"},
		Operation{Kind: Publish, ID: id, Public: true, Title: "Ann is on it"},
		Operation{Kind: ResolveIt, ID: id, By: "Ann"})
	old := b.View()
	apply(t, b, start, Operation{Kind: Erase, By: "Ann"})
	for _, p := range b.Parts() {
		require.NotContains(t, string(p.Encode(nil)), "Ann")
	}
	require.Equal(t, "restarted", b.View().Get(id).Notes[1].Text)
	require.Equal(t, "Bob", b.View().Get("INC-2026-11-0002").OpenedBy)
	require.Equal(t, "Ann", old.Get(id).OpenedBy, "a view never changes")

	apply(t, b, start, Operation{Kind: Erase, ID: id})
	inc := b.View().Get(id)
	require.Equal(t, Removed, inc.Notes[1].By)
	require.Equal(t, "Bob", b.View().Get("INC-2026-11-0002").OpenedBy)
}

func TestRetentionAndBounds(t *testing.T) {
	b := NewBook()
	apply(t, b, start, page("p1", "shop/a", start), page("still", "shop/a", start.Add(time.Hour)))
	apply(t, b, start, over("p1", start.Add(time.Minute)), over("still", start.Add(2*time.Hour)))
	id := b.View().Open()
	require.Empty(t, id)
	b.Advance(start.Add(2*time.Hour + Retention - time.Second))
	require.NotEmpty(t, ids(b))
	b.Advance(start.Add(2*time.Hour + Retention))
	require.Empty(t, ids(b))
	// The number goes on.
	apply(t, b, start, page("p2", "shop/a", start))
	require.Equal(t, []string{"INC-2026-11-0002 critical open 1"}, ids(b))

	b = NewBook()
	var ops []Operation
	for i := range MaxOpen + 3 {
		o := page(fmt.Sprint("p", i), "", start)
		o.Alert.Service = fmt.Sprint("s", i)
		ops = append(ops, o)
	}
	apply(t, b, start, ops...)
	require.Len(t, ids(b), MaxOpen)
	require.EqualValues(t, 3, b.View().Refused())

	b = NewBook()
	for i := range MaxAlerts + 2 {
		at := start.Add(time.Duration(i) * time.Second)
		apply(t, b, at, page(fmt.Sprint("p", i), "shop/a", at))
	}
	inc := b.View().Get("INC-2026-11-0001")
	require.Len(t, inc.Alerts, MaxAlerts)
	require.Equal(t, 2, inc.More)

	b = NewBook()
	text := strings.Repeat("x", MaxText)
	for i := range 10 {
		at := start.Add(time.Duration(i) * time.Hour)
		apply(t, b, at, Operation{Kind: OpenByHand, Key: fmt.Sprint(i), Title: "t", Severity: Warning, By: "Ann"})
		inc := fmt.Sprintf("INC-2026-11-%04d", i+1)
		for range MaxNotes + 1 {
			apply(t, b, at, Operation{Kind: AddNote, ID: inc, By: "Ann", Text: text})
		}
		if got := b.View().Get(inc); got != nil {
			require.Len(t, got.Notes, MaxNotes)
		}
		apply(t, b, at, Operation{Kind: ResolveIt, ID: inc, By: "Ann"})
	}
	require.LessOrEqual(t, b.bytes, MaxBytes)
	require.Nil(t, b.View().Get("INC-2026-11-0001"))
	require.NotNil(t, b.View().Get("INC-2026-11-0010"))
}

// Every id finds its incident, also beside those that are gone, and no other text does.
func TestGet(t *testing.T) {
	b := NewBook()
	for i := range 30 {
		name := fmt.Sprint("a", i)
		apply(t, b, start, Operation{Kind: OpenByHand, By: "Ann", Title: name, Key: name, Severity: Critical, Service: name})
	}
	for _, month := range b.months { // as retention removes some
		month.list = slices.DeleteFunc(month.list, func(inc *Incident) bool { return inc.ID[len(inc.ID)-1] == '5' })
	}
	b.publish()
	require.Len(t, ids(b), 27)
	for inc := range b.View().All() {
		require.Same(t, inc, b.View().Get(inc.ID))
	}
	month := "INC-" + start.Format("2006-01")
	for _, id := range []string{"", "INC-", month, month + "-", month + "-x", month + "-7", month + "-00007",
		month + "-0005", month + "-0031", "INC-1999-01-0001"} {
		require.Nil(t, b.View().Get(id), id)
	}
}

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		o    Operation
		want string
	}{
		{Operation{Kind: AckIt, ID: "x", How: ByAPI}, "by is missing"},
		{Operation{Kind: AckIt, ID: "x", By: "a\nb", How: ByAPI}, "more than one line"},
		{Operation{Kind: AckIt, ID: "x", By: "a", How: "phone"}, `how "phone"`},
		{Operation{Kind: AddNote, ID: "x", By: "a", Text: strings.Repeat("x", MaxText+1)}, "want at most 16384"},
		{Operation{Kind: AddNote, ID: "x", By: "a", Text: strings.Repeat("я", MaxText+1)},
			"text has 16385 characters (want at most 16384)"},
		{Operation{Kind: AckIt, ID: "x", By: strings.Repeat("я", MaxName+1), How: ByAPI},
			"by has 101 characters (want at most 100)"},
		{Operation{Kind: AddNote, ID: "x", By: "a", Text: "a\x00"}, "control character"},
		{Operation{Kind: AddNote, ID: "x", By: "a", Text: "\xff"}, "UTF-8"},
		{Operation{Kind: AddNote, By: "a", Text: "x"}, "id is missing"},
		{Operation{Kind: LinkPost, ID: "x", Text: "javascript:alert(1)"}, "https://"},
		{Operation{Kind: OpenByHand, Key: "k", By: "a", Title: "t", Severity: "high"}, `severity "high"`},
		{Operation{Kind: Erase}, "by is missing"},
		{Operation{Kind: AddUpdate, ID: "x", By: "a"}, "text is missing"},
		{Operation{Kind: AddUpdate, ID: "x", By: "a", Status: "fixed"}, `status "fixed"`},
		{Operation{Kind: EditIt, ID: "x", Title: "t"}, "by is missing"},
		{Operation{Kind: EditIt, ID: "x", By: "a", Title: " "}, "at least one"},
		{Operation{Kind: EditIt, ID: "x", By: "a", Severity: "high"}, `severity "high"`},
		{Operation{Kind: Publish, ID: "x", Title: strings.Repeat("x", MaxTitle+1)}, "want at most 200"},
		{Operation{Kind: "explode", ID: "x"}, "unknown"},
	} {
		err := tt.o.Validate()
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, tt.want)
	}
	require.NoError(t,
		(&Operation{Kind: AddNote, ID: "x", By: strings.Repeat("🚨", MaxName), Text: strings.Repeat("🚨", MaxText)}).Validate())
	require.Equal(t, strings.Repeat("я", MaxTitle), cut(strings.Repeat("я", MaxTitle), MaxTitle))
	require.Equal(t, strings.Repeat("я", MaxTitle-3)+"...", cut(strings.Repeat("я", MaxTitle+1), MaxTitle))
}

func TestOnset(t *testing.T) {
	var buckets []Bucket
	add := func(valid, bad uint64) {
		buckets = append(buckets, Bucket{From: start.Add(time.Duration(len(buckets)) * time.Minute), Valid: valid, Bad: bad})
	}
	for range 30 {
		add(100, 1) // 1 % is below the threshold
	}
	add(100, 20) // the burn begins
	add(0, 0)
	add(100, 1) // a moment of quiet does not move it
	add(100, 40)
	at, ok := Onset(buckets, 0.0144*5)
	require.True(t, ok)
	require.Equal(t, start.Add(30*time.Minute), at)
	_, ok = Onset(buckets[:30], 0.072)
	require.False(t, ok)

	buckets = nil
	add(1, 1) // hours before, with two good events between
	for range 200 {
		add(0, 0)
	}
	add(2, 0)
	add(100, 90)
	add(100, 100)
	at, ok = Onset(buckets, 0.006)
	require.True(t, ok)
	require.Equal(t, buckets[202].From, at, "one bad event of before did not begin the outage")
	buckets = buckets[202:]
	for range 60 {
		add(1000, 990)
	}
	at, ok = Onset(buckets, 0.006)
	require.True(t, ok)
	require.Equal(t, buckets[0].From, at, "a small beginning without a break is part of it")
	_, ok = Onset(buckets[:0], 0.072)
	require.False(t, ok)
	_, ok = Onset(nil, 0.1)
	require.False(t, ok)
}

// restored saves a book and loads it again.
func restored(t require.TestingT, b *Book) *Book {
	fresh := NewBook()
	for _, p := range b.Parts() {
		require.NoError(t, fresh.RestorePart(p.Name, p.Encode(nil)))
	}
	require.NoError(t, fresh.FinishRestore())
	return fresh
}

func saved(b *Book) map[string]string {
	out := map[string]string{}
	for _, p := range b.Parts() {
		out[fmt.Sprint(p.Name, " ", p.Version)] = string(p.Encode(nil))
	}
	return out
}

// A book that was saved and loaded at any points is the one that saw all records, part by part and byte by byte.
func TestReplayEqualsRestore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole, cut := NewBook(), NewBook()
		at := start
		old := map[string]string{}
		for range rapid.IntRange(1, 40).Draw(t, "records") {
			at = at.Add(time.Duration(rapid.SampledFrom([]int{1, 30, 300, 700, 90000, 4e7}).Draw(t, "seconds")) * time.Second)
			var batch Batch
			if rapid.Bool().Draw(t, "cursor") {
				batch.Cursor = at
			}
			for range rapid.IntRange(0, 4).Draw(t, "operations") {
				batch.Operations = append(batch.Operations, drawOperation(t, at))
			}
			payload, err := batch.Encode()
			require.NoError(t, err)
			require.NoError(t, whole.Apply(at, payload))
			require.NoError(t, cut.Apply(at, payload))
			now := saved(whole)
			for name, data := range now {
				require.True(t, old[name] == "" || old[name] == data, "the version of %s stayed and its bytes changed", name)
			}
			old = now
			if rapid.Bool().Draw(t, "restart") {
				cut = restored(t, cut)
			}
			require.Equal(t, now, saved(cut))
			whole.Advance(at.Add(time.Hour))
			cut.Advance(at.Add(time.Hour))
		}
	})
}

func drawOperation(t *rapid.T, at time.Time) Operation {
	id := fmt.Sprintf("INC-%s-%04d", at.Format("2006-01"), rapid.IntRange(1, 4).Draw(t, "id"))
	by := rapid.SampledFrom([]string{"Ann", "Bob"}).Draw(t, "by")
	name := rapid.SampledFrom([]string{"p1", "p2", "p3", "p4"}).Draw(t, "alert")
	slo := rapid.SampledFrom([]string{"shop/a", "shop/b", ""}).Draw(t, "slo")
	switch rapid.IntRange(0, 13).Draw(t, "kind") {
	case 10:
		return Operation{Kind: EditIt, ID: id, By: by, Title: name, Owner: by, Severity: Warning}
	case 11:
		return Operation{Kind: AddUpdate, ID: id, By: by, Status: rapid.SampledFrom(Statuses).Draw(t, "status"), Public: true}
	case 12:
		return Operation{Kind: Publish, ID: id, Public: true, Title: name}
	case 0, 1:
		return page(name, slo, at)
	case 2:
		return ticket(name, slo, at)
	case 3, 4:
		return over(name, at)
	case 5:
		return Operation{Kind: OpenByHand, Key: name, Title: "t", Severity: Critical, By: by}
	case 6:
		return Operation{Kind: AckIt, ID: id, By: by, Team: "ops", How: ByLink}
	case 7:
		return Operation{Kind: AddNote, ID: id, By: by, Text: "asked Ann"}
	case 8:
		return Operation{Kind: ResolveIt, ID: id, By: by}
	case 9:
		return Operation{Kind: Measured, ID: id, Spent: []Spent{{SLO: "shop/a", Valid: 10, Bad: 1, Budget: 0.1}}}
	}
	return Operation{Kind: Erase, By: by}
}
