package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/sla/annotation"
	"github.com/sloengine/sloengine/sla/fleet"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/traces"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// Bounds of the answers for `sloengine view`. The fold counts nothing while it is asked.
const (
	maxRawBytes  = 4 << 20         // counts of slices in one answer
	maxSumsCalls = 2               // requests that are answered at the same time
	maxSumsWait  = 2 * time.Second // for one of those to end
	maxSumsClock = time.Hour       // how far the clocks of the two may be apart
)

// sumsAPI answers for this engine's part of the events.
type sumsAPI struct {
	run     string // of this process
	counts  *counting.Counts
	specs   *counting.Specs
	request func(now time.Time, minutes bool) fold.Request // what a report as of now needs
	notes   func(most int) (all []annotation.Annotation, changes uint64)
	onsets  func(sp slo.Span) (all []fleet.Onset, known bool)
	traces  *traces.Store
	now     func() time.Time
	slots   chan struct{} // holds one for each request that is answered
}

// begin checks what both requests share: the spec, that the engine has all its counts, and that it is not too busy. If
// it answered, it returns nil.
func (a *sumsAPI) begin(c *gin.Context, hash string) *counting.Spec {
	c.Header("Cache-Control", "no-store")
	now := a.specs.InForce()
	c.Header(fleet.SpecHeader, now.Hash)
	if hash != now.Hash {
		respond.Problem(c, http.StatusConflict, fmt.Sprintf("This engine runs spec %s.", now.Hash), nil)
		return nil
	}
	select {
	case <-a.counts.Ready():
	default:
		c.Header("Retry-After", "5")
		respond.Problem(
			c, http.StatusServiceUnavailable, "The engine is still reading its log, so its counts are not complete.", nil)
		return nil
	}
	wait, cancel := context.WithTimeout(c.Request.Context(), maxSumsWait)
	defer cancel()
	select {
	case a.slots <- struct{}{}:
		return now
	case <-wait.Done():
		c.Header("Retry-After", "1")
		respond.Problem(
			c, http.StatusServiceUnavailable, fmt.Sprintf("%d such requests are being answered already.", maxSumsCalls), nil)
		return nil
	}
}

// send answers, once others may ask.
func (a *sumsAPI) send(c *gin.Context, body []byte) {
	<-a.slots
	respond.Send(c, http.StatusOK, fleet.ContentType, body)
}

// sums answers with the sums of all windows as of a time, and with the slices that changed.
func (a *sumsAPI) sums(c *gin.Context) {
	q, err := sumsQuery(c, a.run)
	if err != nil {
		respond.Problem(c, http.StatusBadRequest, err.Error(), nil)
		return
	}
	if apart := a.now().Sub(q.now); apart.Abs() > maxSumsClock {
		respond.Problem(c, http.StatusBadRequest, fmt.Sprintf("now: it is %s away from this engine's clock. Set the clocks.",
			slo.FormatDuration(apart.Abs().Round(time.Second))), nil)
		return
	}
	before := a.begin(c, c.Query("spec"))
	if before == nil {
		return
	}
	req := a.request(q.now, q.minutes)
	req.Unjudged = true
	answer := fleet.Answer{Run: a.run, Request: fleet.RequestSum(&req)}
	err = a.counts.Do(c.Request.Context(), func(f *fold.Fold) {
		if !q.slicesOnly {
			answer.Sums = f.Sums(req)
		}
		if config := f.ConfigVersion(); config != q.config {
			q.raw = fold.RawRequest{}
		}
		q.raw.Bytes = maxRawBytes
		answer.Raw = f.Raw(q.raw)
	})
	if a.failed(c, before, err) {
		return
	}
	if all, changes := a.notes(fleet.MaxNotes); q.noted && q.notes == changes {
		answer.Notes = fleet.Notes{Changes: changes, Same: true}
	} else {
		answer.Notes = fleet.Notes{Changes: changes, All: all}
	}
	a.send(c, fleet.Encode(&answer))
}

// failed answers if the counts could not be read, or if the spec changed while they were. Then others may ask.
func (a *sumsAPI) failed(c *gin.Context, before *counting.Spec, err error) bool {
	if err == nil && a.specs.InForce() != before {
		err = errors.New("the spec changed meanwhile")
	}
	if err == nil {
		return false
	}
	<-a.slots
	if !errors.Is(err, context.Canceled) { // nobody would read it
		c.Header("Retry-After", "1")
		respond.Problem(c, http.StatusServiceUnavailable, "The counts could not be read: "+err.Error()+".", nil)
	}
	return true
}

// sumsParams is what the parameters of a request for sums say.
type sumsParams struct {
	now        time.Time
	raw        fold.RawRequest
	config     uint64
	slicesOnly bool
	minutes    bool
	noted      bool   // notes is set
	notes      uint64 // changes of the annotations that the asker has
}

// sumsQuery reads the parameters. What an earlier process of this engine told is told again.
func sumsQuery(c *gin.Context, run string) (q sumsParams, err error) {
	number := func(name string, bits int) (n uint64) {
		s := c.Query(name)
		if s == "" || err != nil {
			return 0
		}
		var e error
		if n, e = strconv.ParseUint(s, 10, bits); e != nil {
			err = fmt.Errorf("%s: want a number", name)
		}
		return n
	}
	at := number("now", 63)
	q.config, q.raw.Since, q.notes = number("config", 64), number("since", 64), number("annotations", 64)
	q.noted = c.Query("annotations") != "" && c.Query("run") == run
	if s := c.Query("from"); s != "" && err == nil {
		store, slice, _ := strings.Cut(s, ",")
		i, e1 := strconv.ParseUint(store, 10, 31)
		n, e2 := strconv.ParseUint(slice, 10, 62)
		if e1 != nil || e2 != nil {
			return q, errors.New("from: want two numbers with a comma between them")
		}
		q.raw.From = fold.RawCursor{Store: int(i), Slice: int64(n)}
	}
	switch only := c.Query("only"); {
	case err != nil:
		return q, err
	case at == 0:
		return q, errors.New("now: want Unix nanoseconds")
	case only != "" && only != "slices":
		return q, errors.New("only: want slices")
	default:
		q.slicesOnly = only == "slices"
	}
	switch minutes := c.Query("minutes"); minutes {
	case "", "true":
		q.minutes = minutes != ""
	default:
		return q, errors.New("minutes: want true")
	}
	q.now = time.Unix(0, int64(at)).UTC()
	if c.Query("run") != run {
		q.raw = fold.RawRequest{}
	}
	return q, nil
}

// past answers with what was counted in times of the past. It changes nothing, but its questions are too long for an
// address.
func (a *sumsAPI) past(c *gin.Context) {
	var q fleet.CountsQuery
	if err := http.NewCrossOriginProtection().Check(c.Request); err != nil {
		respond.Problem(c, http.StatusForbidden, "Requests from pages of another site are refused.", nil)
		return
	}
	if typ, _, _ := mime.ParseMediaType(c.GetHeader("Content-Type")); typ != "application/json" {
		respond.Problem(c, http.StatusUnsupportedMediaType, "The content type must be application/json.", nil)
		return
	}
	dec := json.NewDecoder(http.MaxBytesReader(c.Writer, c.Request.Body, fleet.MaxCountsBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&q); err != nil {
		respond.Problem(c, http.StatusBadRequest, "The body could not be read: "+err.Error()+".", nil)
		return
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		respond.Problem(c, http.StatusBadRequest, "The body could not be read: there is more than one JSON value.", nil)
		return
	}
	reads, err := q.Requests()
	if err != nil {
		respond.Problem(c, http.StatusBadRequest, err.Error(), nil)
		return
	}
	before := a.begin(c, q.Spec)
	if before == nil {
		return
	}
	var out fleet.Counts
	for i := range reads { // one by one, so that events are counted in between
		err = errors.Join(err, a.counts.Do(c.Request.Context(), func(f *fold.Fold) {
			out.Reads = append(out.Reads, f.Read(reads[i:i+1])...)
		}))
	}
	span := slo.Span{From: time.Unix(0, q.Span[0]), To: time.Unix(0, q.Span[1])}
	if q.Onsets {
		out.Onsets, out.OnsetsKnown = a.onsets(span)
	}
	if q.Traces != nil {
		out.Traces = a.traces.Of(q.Traces.ID, q.Traces.Group, a.now())
	}
	if len(q.Losses) > 0 {
		err = errors.Join(err, a.counts.Do(c.Request.Context(), func(f *fold.Fold) { out.Losses = f.Offers(q.Losses, span) }))
	}
	if a.failed(c, before, err) {
		return
	}
	a.send(c, fleet.EncodeCounts(&out))
}

// newSumsAPI makes the API of an engine.
func newSumsAPI(p *parts, specs *counting.Specs, run string) *sumsAPI {
	return &sumsAPI{
		run: run, counts: p.evaluation.counts, specs: specs, request: p.evaluation.Request, notes: p.annotations.Latest,
		onsets: p.incidents.onsets, traces: p.storage.traces, now: time.Now, slots: make(chan struct{}, maxSumsCalls),
	}
}

// register mounts both requests.
func (a *sumsAPI) register(r gin.IRouter, allow func(site.Permission) gin.HandlerFunc) {
	r.GET(fleet.SumsPath, site.Secure, allow(site.Read), a.sums)
	r.POST(fleet.CountsPath, site.Secure, allow(site.Read), a.past)
}
