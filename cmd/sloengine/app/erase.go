package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/cmd/sloengine/app/admission"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/deadletter"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/rejects"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/retained"
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

	History historyErased `json:"history"`
}

// historyErased is what an erasure does in the retained log. It continues after the answer.
type historyErased struct {
	Refused string `json:"refused,omitempty"` // why the retained log is left as it is
	Events  uint64 `json:"events"`            // changed so far
	Files   int    `json:"files"`             // of the history, still to be searched
	Bytes   int64  `json:"bytes"`             // of the history
	Log     uint64 `json:"log_records"`       // still in the log, and searched when they are moved to the history
	Damaged int    `json:"damaged"`           // blocks and files that cannot be read, and stay
	Done    bool   `json:"done"`
}

// Erasure is the request for one.
type Erasure struct {
	Attribute  string `json:"attribute"`
	Value      string `json:"value"`
	Unreadable bool   `json:"unreadable"` // remove dead letters that are no readable event, too
	DryRun     bool   `json:"dry_run"`
	// Redact applies the rules of redact in force to the retained log instead. Attribute and Value are empty then.
	Redact bool `json:"redact,omitempty"`
}

// eraser removes what is held of one person. Counts hold no person and stay.
type eraser struct {
	dead      *deadLetters
	incidents *incidents
	rejects   *rejects.Table
	keys      func(ctx context.Context, attribute, value string, dry bool) (int, error) // of work in flight
	history   historyEraser
	spec      func() *counting.Spec
	redaction *admission.Redaction
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
		"redact":     site.Bool(&r.Redact),
	})
	switch {
	case err != nil:
	case r.Redact && (r.Attribute != "" || r.Value != "" || r.Unreadable):
		err = fmt.Errorf("redact: want it alone, or with dry_run")
	case r.Redact:
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
			fmt.Sprintf("attribute=%q dead_letters=%d unreadable=%d samples=%d incidents=%d in_flight=%d history=%d refused=%q",
				r.Attribute, done.DeadLetters, done.Unreadable, done.Samples, done.Incidents, done.InFlight,
				done.History.Events, done.History.Refused), err)
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
	if r.Redact {
		done.History, err = e.redactHistory(ctx, r.DryRun)
		return done, err
	}
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
	done.History, err = e.fromHistory(ctx, r)
	return done, err
}

// fromHistory removes the value from the retained log, unless something would count differently then.
func (e *eraser) fromHistory(ctx context.Context, r Erasure) (historyErased, error) {
	wanted := retained.NewErasure(r.Attribute, r.Value)
	if by := e.spec().TellsApart(r.Attribute, r.Value, wanted.Token); by != "" {
		return historyErased{Refused: by}, nil
	}
	return e.history(ctx, wanted, r.DryRun, func(o *retained.Erasure) bool {
		return o.Attribute == r.Attribute && o.Is([]byte(r.Value))
	})
}

// redactHistory applies the rules in force to the retained log, unless something would count differently then.
func (e *eraser) redactHistory(ctx context.Context, dry bool) (historyErased, error) {
	if !e.redaction.Active() {
		return historyErased{Refused: "engine.yaml has no rules of redact"}, nil
	}
	for _, name := range e.spec().Counted() {
		if e.redaction.Concerns(name) {
			return historyErased{Refused: "a rule of redact is about " + name + ", by which the spec counts"}, nil
		}
	}
	wanted := retained.NewErasure("", "")
	wanted.Token, wanted.Salt, wanted.Hash = "", nil, nil
	return e.history(ctx, wanted, dry, func(o *retained.Erasure) bool { return o.Attribute == "" })
}

// historyEraser begins an erasure unless the same one is at work. A dry run says what it would search.
type historyEraser func(
	ctx context.Context, e retained.Erasure, dry bool, same func(*retained.Erasure) bool,
) (historyErased, error)

// eraseWait is how long the answer to an erasure waits for the retained log.
const eraseWait = 2 * time.Second

// eraseHistory begins an erasure from the retained log, and waits a little for it. The segment that is being written is
// closed, so that what it holds can be moved to the history or deleted.
func eraseHistory(e *engine.Engine) historyEraser {
	return func(
		ctx context.Context, wanted retained.Erasure, dry bool, same func(*retained.Erasure) bool,
	) (done historyErased, err error) {
		history, log := e.History(), e.Log()
		st := history.Stats()
		wanted.Below = log.NextSeq()
		done = historyErased{Files: st.Files, Bytes: st.Bytes, Log: wanted.Below - log.FirstSeq()}
		if dry {
			return done, nil
		}
		log.Roll()
		if history.Bounds().Age == 0 { // the log is deleted behind the checkpoint
			return done, nil
		}
		p, err := history.Erase(wanted, same)
		if err != nil {
			return done, fmt.Errorf("erase from the history: %w", err)
		}
		tick := time.NewTicker(eraseWait / 40)
		defer tick.Stop()
		for end := time.Now().Add(eraseWait); !p.Done && p.Files > 0 && time.Now().Before(end); {
			select {
			case <-tick.C:
				p = history.Erasure(p)
			case <-ctx.Done():
				return done, context.Cause(ctx)
			}
		}
		done.Events, done.Files, done.Damaged, done.Done = p.Events, p.Files, p.Damaged, p.Done
		if done.Log = 0; !p.Done && p.Below > log.FirstSeq() {
			done.Log = p.Below - log.FirstSeq()
		}
		return done, nil
	}
}

// erasePage bounds the dead letters that are in memory at a time.
const erasePage = 50
