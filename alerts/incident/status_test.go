package incident

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const firstID = "INC-2026-11-0001"

// does applies operations on the first incident, each a minute after the one before, from the third minute on.
func does(t *testing.T, b *Book, ops ...Operation) *Incident {
	t.Helper()
	for k, o := range ops {
		o.ID, o.By = firstID, "Ann"
		require.NoError(t, o.Validate())
		apply(t, b, start.Add(time.Duration(3+k)*time.Minute), o)
	}
	return b.View().Get(firstID)
}

func TestUpdatesSetTheStatus(t *testing.T) {
	b := NewBook()
	apply(t, b, start, page("p1", "shop/a", start))
	inc := does(t, b,
		Operation{Kind: AddUpdate, Status: StatusIdentified, Text: "db-7 is full"},
		Operation{Kind: AddUpdate, Text: "still", Public: true},
		Operation{Kind: AddUpdate, Status: StatusMonitoring, Public: true},
	)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	require.Equal(t, []StatusChange{{StatusInvestigating, start}, {StatusIdentified, at(3)}, {StatusMonitoring, at(5)}},
		inc.StatusChanges(false))
	require.Equal(t, []StatusChange{{StatusInvestigating, start}, {StatusMonitoring, at(5)}}, inc.StatusChanges(true),
		"an update that is not public tells the public nothing")
	require.Equal(t, StatusIdentified, inc.StatusAt(at(4), false))
	require.Equal(t, StatusInvestigating, inc.StatusAt(at(4), true))

	// Its alerts are resolved, and fire again: the fix did not hold.
	apply(t, b, at(6), over("p1", at(6)))
	require.Equal(t, StatusResolved, b.View().Get(firstID).CurrentStatus(true).Status)
	apply(t, b, at(8), page("p1", "shop/a", at(8)))
	require.Equal(t, StatusChange{StatusInvestigating, at(8)}, b.View().Get(firstID).CurrentStatus(false))

	apply(t, b, at(9), Operation{Kind: AddUpdate, ID: firstID, By: "Ann", Status: StatusResolved, Text: "new disk"})
	inc = b.View().Get(firstID)
	require.Equal(t, Resolution{Time: at(9), By: "Ann"}, *inc.Resolved)
	require.Equal(t, StatusChange{StatusResolved, at(9)}, inc.CurrentStatus(true))
	require.ErrorIs(t, (&Operation{Kind: AddUpdate, Status: StatusMonitoring}).Allowed(inc), ErrState)
	require.NoError(t, (&Operation{Kind: AddUpdate}).Allowed(inc), "a text may follow")
}

func TestEdits(t *testing.T) {
	b := NewBook()
	apply(t, b, start, ticket("t1", "shop/a", start))
	inc := does(t, b, Operation{Kind: EditIt, Title: " Disk of db-7 is full ", Severity: Critical, Owner: "Cleo"},
		Operation{Kind: EditIt, Owner: "Cleo"})
	at := start.Add(3 * time.Minute)
	require.Equal(t, []Edit{{at, "Ann", "Disk of db-7 is full", Critical, "Cleo"}}, inc.Edits,
		"the second changed nothing")
	require.Equal(t, "Cleo", inc.ResponseOwner())
	require.Equal(t, at, inc.Raised, "the time to acknowledge counts from here")

	// A page changes no title that a person has set, and tickets still hold an incident open that a person raised.
	two := ticket("t2", "shop/a", at)
	apply(t, b, at, two)
	apply(t, b, at.Add(time.Minute), over("t1", at.Add(time.Minute)))
	require.Equal(t, Open, b.View().Get(firstID).State)
	does(t, b, Operation{Kind: EditIt, Severity: Warning})
	apply(t, b, at.Add(2*time.Minute), page("p1", "shop/a", at.Add(2*time.Minute)))
	inc = b.View().Get(firstID)
	require.Equal(t, Critical, inc.Severity)
	require.Equal(t, "Disk of db-7 is full", inc.Title)
	apply(t, b, at.Add(3*time.Minute), Operation{Kind: EditIt, ID: firstID, By: "Ann", Severity: Warning},
		over("p1", at.Add(3*time.Minute)))
	require.Equal(t, Resolved, b.View().Get(firstID).State,
		"the page was the most urgent alert, whatever a person called it")

	for range MaxNotes + 5 {
		apply(t, b, at.Add(time.Hour), Operation{Kind: EditIt, ID: firstID, By: "a", Severity: Critical},
			Operation{Kind: EditIt, ID: firstID, By: "a", Severity: Warning})
	}
	require.Len(t, b.View().Get(firstID).Edits, MaxNotes)
}

// The public title is another one than the title, so that an edit inside tells the public nothing.
func TestPublicTitle(t *testing.T) {
	b := NewBook()
	apply(t, b, start, page("p1", "shop/a", start))
	inc := does(t, b, Operation{Kind: Publish, Public: true, Title: "Orders are slow"},
		Operation{Kind: EditIt, Title: "db-7 of tenant 12"}, Operation{Kind: Publish, Public: true})
	require.Equal(t, "Orders are slow", inc.PublicTitle)
	require.Equal(t, "db-7 of tenant 12", inc.Title)
}
