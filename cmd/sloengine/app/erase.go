package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/ingest/deadletter"
	"github.com/sloengine/sloengine/ingest/rejects"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// ErasePath erases the data of one person.
const ErasePath = "/api/v1/erase"

// Erased is what an erasure removed, or would remove in a dry run. What stays is named, too.
type Erased struct {
	DryRun      bool   `json:"dry_run"`
	Attribute   string `json:"attribute"`
	DeadLetters int    `json:"dead_letters"` // with an event that has the value
	Unreadable  int    `json:"unreadable"`   // dead letters that are no readable event and in which name and value stand
	LogRanges   int    `json:"log_ranges"`   // dead letters that stand for ranges of the log, which stay
	Samples     int    `json:"samples"`      // of rejected events in which the value stands
	Incidents   int    `json:"incidents"`    // whose title, notes or updates mention the value
	InFlight    int    `json:"in_flight"`    // pieces of work in flight whose key is the value
}

// Erasure is the request for one.
type Erasure struct {
	Attribute  string `json:"attribute"`
	Value      string `json:"value"`
	Unreadable bool   `json:"unreadable"` // remove dead letters that are no readable event, too
	DryRun     bool   `json:"dry_run"`
}

// eraser removes what is held of one person. Counts hold no person and stay.
type eraser struct {
	dead      *deadLetters
	incidents *incidents
	rejects   *rejects.Table
	keys      func(ctx context.Context, attribute, value string, dry bool) (int, error) // of work in flight
	trail     *auditTrail
	body      func(c *gin.Context) ([]byte, bool)
	fail      func(msg string, err error)
}

func readErasure(body []byte) (r Erasure, err error) {
	err = site.ReadObject(body, site.Fields{
		"attribute":  site.Value(&r.Attribute, "a text"),
		"value":      site.Value(&r.Value, "a text"),
		"unreadable": site.Bool(&r.Unreadable),
		"dry_run":    site.Bool(&r.DryRun),
	})
	switch {
	case err != nil:
	case r.Attribute == "" || len(r.Attribute) > incident.MaxName:
		err = fmt.Errorf("attribute: want the name of an attribute of events")
	case r.Value == "" || len([]rune(r.Value)) > incident.MaxName:
		err = fmt.Errorf("value: want a text of 1 to %d characters", incident.MaxName)
	}
	return r, err
}

func (e *eraser) serve(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	body, ok := e.body(c)
	if !ok {
		return
	}
	r, err := readErasure(body)
	if err != nil {
		respond.Problem(c, http.StatusBadRequest, "body: "+err.Error(), nil)
		return
	}
	done, err := e.erase(c.Request.Context(), r)
	if !r.DryRun { // the value is the person, so it is in no log
		e.trail.note(c, "erase",
			fmt.Sprintf("attribute=%q dead_letters=%d unreadable=%d samples=%d incidents=%d in_flight=%d", r.Attribute,
				done.DeadLetters, done.Unreadable, done.Samples, done.Incidents, done.InFlight), err)
	}
	if err != nil {
		e.fail("erase", err)
		c.Header("Retry-After", "5")
		respond.Problem(c, http.StatusServiceUnavailable, fmt.Sprintf(
			"The erasure is not complete: %d dead letters and %d incidents are done. The engine's log has the cause. Try again.",
			done.DeadLetters+done.Unreadable, done.Incidents), nil)
		return
	}
	respond.JSON(c, http.StatusOK, "application/json", done)
}

func (e *eraser) erase(ctx context.Context, r Erasure) (done Erased, err error) {
	done = Erased{DryRun: r.DryRun, Attribute: r.Attribute}
	err = dlq.Each(ctx, e.dead.RangeStore, dlq.Query{Limit: erasePage}, func(entries []dlq.Entry) error {
		var ids []string
		var readable, unreadable int
		for i := range entries {
			switch deadletter.Holds(&entries[i], r.Attribute, r.Value) {
			case deadletter.Value:
				readable++
				ids = append(ids, entries[i].ID)
			case deadletter.Unclear:
				unreadable++
				if r.Unreadable {
					ids = append(ids, entries[i].ID)
				}
			case deadletter.LogRange:
				done.LogRanges++
			}
		}
		if !r.DryRun && len(ids) > 0 {
			if _, err := e.dead.Discard(ctx, ids); err != nil {
				return fmt.Errorf("discard dead letters: %w", err)
			}
		}
		done.DeadLetters += readable
		done.Unreadable += unreadable
		return nil
	})
	if err != nil {
		return done, err
	}
	if !r.DryRun && done.DeadLetters+done.Unreadable > 0 {
		if err := e.dead.Compact(ctx); err != nil { // what was discarded is in the files until then
			return done, fmt.Errorf("compact dead letters: %w", err)
		}
	}
	done.Samples = e.rejects.Samples(r.Value, !r.DryRun)
	mentioned := e.incidents.View().Mentioning(r.Value)
	if !r.DryRun && mentioned > 0 {
		if _, err := e.incidents.Do(ctx, incident.Operation{Kind: incident.Erase, By: r.Value, Whole: true}); err != nil {
			return done, errors.Join(fmt.Errorf("erase from incidents"), err)
		}
	}
	done.Incidents = mentioned
	if done.InFlight, err = e.keys(ctx, r.Attribute, r.Value, r.DryRun); err != nil {
		return done, fmt.Errorf("erase keys of work in flight: %w", err)
	}
	return done, nil
}

// erasePage bounds the dead letters that are in memory at a time.
const erasePage = 50
