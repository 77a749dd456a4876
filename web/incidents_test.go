package web

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// memoryBook is a book of incidents that is stored nowhere.
type memoryBook struct {
	*incident.Book
	now     time.Time
	failure error
}

func (m *memoryBook) Do(_ context.Context, o incident.Operation) (*incident.Incident, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if m.failure != nil {
		return nil, m.failure
	}
	if o.ID != "" {
		inc := m.View().Get(o.ID)
		if inc == nil {
			return nil, incident.ErrNotFound
		}
		if err := o.Allowed(inc); err != nil {
			return inc, err
		}
	}
	m.apply(incident.Batch{Operations: []incident.Operation{o}})
	if o.Kind == incident.OpenByHand {
		return m.View().ByKey(o.Key), nil
	}
	return m.View().Get(o.ID), nil
}

func (m *memoryBook) apply(b incident.Batch) {
	payload, err := b.Encode()
	if err == nil {
		err = m.Apply(m.now, payload)
	}
	if err != nil {
		panic(err)
	}
}

func (m *memoryBook) Spent(inc *incident.Incident) []incident.Spent { return inc.Spent }

func (m *memoryBook) Measure(from, to time.Time) incident.Measures {
	return m.View().Measure(from, to,
		[]*slo.Baseline{{Service: "insurance-unpaid", Name: "performance", Goal: 0.5,
			Detection: slo.Before{From: time.Hour, To: 2 * time.Hour, Target: 5 * time.Minute}}})
}

func (m *memoryBook) VerifyAck(_, _, signature string) error {
	if signature != "good" {
		return errors.New("this link is not valid")
	}
	return nil
}

// newMemoryBook holds an incident that an alert opened 4 minutes after its onset.
func newMemoryBook() *memoryBook {
	m := &memoryBook{Book: incident.NewBook(), now: noon}
	m.apply(incident.Batch{Operations: []incident.Operation{{
		Kind: incident.Fire, Title: "Orders fail", Team: "unpaid", Onset: noon.Add(-5 * time.Minute),
		OnsetBy: incident.OnsetByCounts,
		Alert: &incident.Alert{
			Fingerprint: "00000000000000aa", Name: "ErrorBudgetBurnPage", Service: "insurance-unpaid",
			SLO: "insurance-unpaid/availability", Group: []string{"MEDCARE"},
			Labels: map[string]string{"alertname": "ErrorBudgetBurnPage"}, Severity: incident.Critical,
			Fired: noon.Add(-time.Minute),
		},
	}}})
	return m
}

// incidents asks all that the API has about incidents.
func (k *contract) incidents(b *bench) {
	defer func(opt site.Options, eng status.Engine) { b.web.Opt, b.eng = opt, eng }(b.web.Opt, b.eng)
	const all, one = "/api/v1/incidents", "/api/v1/incidents/INC-2026-11-0001"
	k.answer(b, http.MethodGet, all, 501)
	k.sent(b, all, `{"title":"t","by":"Ann"}`, 501)
	book := newMemoryBook()
	b.web.Opt.Incidents = book
	for target, status := range map[string]int{all: 200, all + "?state=unresolved&severity=critical": 200,
		all + "?state=odd": 400, all + "?limit=0": 400, all + ".csv": 200, all + ".csv?from=x": 400, all + "/measures": 200,
		all + "/measures?from=2026-11-01T00:00:00Z&to=2026-12-01T00:00:00Z": 200, all + "/measures?to=x": 400,
		one: 200, all + "/x": 404} {
		k.answer(b, http.MethodGet, target, status)
	}
	require.Contains(k.t, string(k.answer(b, http.MethodGet, one, 200)), `"detection_seconds":240`)
	require.Contains(k.t, string(k.answer(b, http.MethodGet, all+"/measures?to=2026-12-01T00:00:00Z", 200)),
		`"verdict":"met"`)
	k.sent(b, all,
		`{"title":"t","by":"Ann","service":"shop","severity":"warning","team":"ops","onset":"2026-11-20t10:00:00z",`+
			`"public":true,"key":"k"}`, 201)
	for path, body := range map[string]string{
		"/ack": `{"by":"Bob","team":"ops"}`, "/note": `{"by":"Bob","text":"*x*"}`,
		"/update": `{"by":"Bob","text":"*x*","public":true,"status":"monitoring"}`, "/publish": `{"public":true,"title":"t"}`,
		"/edit":        `{"by":"Bob","title":"t","severity":"critical","owner":"Cleo"}`,
		"/post-mortem": `{"url":"https://wiki.example.org/1"}`, "/erase": `{"person":"Eve"}`,
	} {
		k.sent(b, one+path, body, 200)
		k.sent(b, one+path, `{"odd":1}`, 400)
		k.sent(b, all+"/x"+path, body, 404)
		k.sent(b, one+path, body, 403, "Sec-Fetch-Site", "cross-site")
		k.sent(b, one+path, body, 415, "Content-Type", "text/plain")
		k.sent(b, one+path, strings.Repeat(" ", site.MaxBody+1), 413)
	}
	require.Contains(k.t, string(k.sent(b, one+"/publish", `{"public":true,"title":"x","dry_run":true}`, 200)),
		`"title":"x"`)
	k.sent(b, one+"/publish", `{"public":true,"title":"`+strings.Repeat("x", 201)+`","dry_run":true}`, 400)
	k.sent(b, all+"/x/publish", `{"public":true,"dry_run":true}`, 404)
	require.NotContains(k.t, string(k.answer(b, http.MethodGet, one, 200)), `"public_title":"x"`)
	k.sent(b, one+"/resolve", `{"by":"Bob"}`, 200)
	k.sent(b, one+"/resolve", `{"by":"Bob"}`, 409)
	k.answer(b, http.MethodGet, one, 200)
	k.sent(b, all+"/erase", `{"person":"Bob"}`, 200)
	k.sent(b, all+"/erase", `{}`, 400)
	book.failure = errors.New("busy")
	k.sent(b, one+"/note", `{"by":"Bob","text":"x"}`, 503)
	b.eng.State = status.Recovering
	k.answer(b, http.MethodGet, all, 503)
}
