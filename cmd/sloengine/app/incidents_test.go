package app

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/slo"
)

// incidentJSON is what these tests read of an answer.
type incidentJSON struct {
	ID, State, Title, Severity string
	Ack                        *incident.Ack
	DetectionSeconds           float64  `json:"detection_seconds"`
	ResponseSeconds            *float64 `json:"response_seconds"`
	Notes                      []incident.Note
	Updates                    []incident.Update
	Public                     bool
	PostMortem                 string `json:"post_mortem"`
	OpenedBy                   string `json:"opened_by"`
}

func askIncident(t *testing.T, a *app, want int, method, path, body string) (inc incidentJSON) {
	t.Helper()
	rec := request(a, method, path, "localhost", body, "Content-Type", "application/json")
	require.Equal(t, want, rec.Code, "%s %s: %s", method, path, rec.Body)
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &inc), rec.Body.String())
	return inc
}

func TestIncidentsOverTheAPI(t *testing.T) {
	dir := t.TempDir()
	a, g := built(t, dir, "web: {external_url: 'https://slo.example/x/'}\n", "127.0.0.1:0")
	serving(t, a, g)
	const all = "/api/v1/incidents"
	opened := askIncident(t, a, http.StatusCreated, "POST", all,
		`{"title":"=Checkout fails","service":"shop","by":"Ann","key":"k1","team":"ops","onset":"2026-11-01T10:00:00Z"}`)
	require.Equal(t, "open", opened.State)
	require.Equal(t, "critical", opened.Severity)
	require.Positive(t, opened.DetectionSeconds)
	require.Equal(t, opened.ID, askIncident(t, a, http.StatusCreated, "POST", all,
		`{"title":"again","by":"Ann","key":"k1"}`).ID, "the key makes it idempotent")

	one := all + "/" + opened.ID
	require.Equal(
		t, "acknowledged", askIncident(t, a, http.StatusOK, "POST", one+"/ack", `{"by":"Bob","team":"ops"}`).State)
	require.NotNil(t, askIncident(t, a, http.StatusOK, "GET", one, "").ResponseSeconds)
	askIncident(t, a, http.StatusConflict, "POST", one+"/ack", `{"by":"Eve"}`)
	askIncident(t, a, http.StatusOK, "POST", one+"/note", `{"by":"Bob","text":"**db-7** is down, Ann knows"}`)
	askIncident(t, a, http.StatusOK, "POST", one+"/update", `{"by":"Bob","text":"We are on it","public":true}`)
	askIncident(t, a, http.StatusOK, "POST", one+"/publish", `{"public":true}`)
	askIncident(t, a, http.StatusOK, "POST", one+"/post-mortem", `{"url":"https://wiki.example.org/7"}`)
	askIncident(t, a, http.StatusOK, "POST", one+"/resolve", `{"by":"Bob"}`)
	got := askIncident(t, a, http.StatusOK, "GET", one, "")
	require.Equal(t, "resolved", got.State)
	require.True(t, got.Public && got.Updates[0].Public)
	require.Equal(t, "https://wiki.example.org/7", got.PostMortem)

	for path, body := range map[string]string{
		one + "/ack":         `{}`,
		one + "/note":        `{"by":"Bob","text":"x","colour":"red"}`,
		one + "/post-mortem": `{"url":"javascript:alert(1)"}`,
		all:                  `{"title":"t","by":"a","severity":"high"}`,
		all + "/erase":       `{}`,
	} {
		askIncident(t, a, http.StatusBadRequest, "POST", path, body)
	}
	askIncident(t, a, http.StatusNotFound, "POST", one+"/explode", `{"by":"a"}`)
	askIncident(t, a, http.StatusNotFound, "GET", all+"/INC-2026-11-9999", "")
	askIncident(t, a, http.StatusNotFound, "POST", all+"/nothing/ack", `{"by":"a"}`)

	second := askIncident(t, a, http.StatusCreated, "POST", all, `{"title":"second","by":"Ann","severity":"warning"}`)
	var list struct {
		Items []incidentJSON
		Next  string `json:"next_cursor"`
	}
	for query, want := range map[string][]string{
		"": {second.ID, opened.ID}, "?severity=warning": {second.ID}, "?state=resolved": {opened.ID},
		"?state=unresolved": {second.ID}, "?service=shop": {opened.ID},
		"?limit=1": {second.ID}, "?limit=1&cursor=" + second.ID: {opened.ID}, "?to=2026-10-01T00:00:00Z": {},
		"?from=2026-10-01T00:00:00Z&state=resolved": {opened.ID},
	} {
		rec := request(a, "GET", all+query, "localhost", "")
		require.Equal(t, http.StatusOK, rec.Code, rec.Body)
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &list))
		ids := []string{}
		for _, x := range list.Items {
			ids = append(ids, x.ID)
		}
		require.Equal(t, want, ids, query)
	}
	for _, query := range []string{"?state=odd", "?severity=odd", "?from=odd", "?limit=0", "?cursor=odd"} {
		require.Equal(t, http.StatusBadRequest, request(a, "GET", all+query, "localhost", "").Code, query)
	}
	csv := request(a, "GET", all+".csv", "localhost", "").Body.String()
	require.Contains(t, csv, opened.ID+",shop,critical,resolved,'=Checkout fails,false,2026-11-01T10:00:00Z,hand,")
	require.Equal(t, 3, strings.Count(csv, "\r\n"))

	// Ann is gone from everything, also after a restart.
	require.Equal(t, http.StatusOK,
		request(a, "POST", all+"/erase", "localhost", `{"person":"Ann"}`, "Content-Type", "application/json").Code)
	got = askIncident(t, a, http.StatusOK, "GET", one, "")
	require.Equal(t, incident.Removed, got.OpenedBy)
	require.Equal(t, incident.Removed, got.Notes[0].Text)
	require.NoError(t, g.stop(t.Context()))
	a, g = built(t, dir, "", "127.0.0.1:0")
	serving(t, a, g)
	body := request(a, "GET", one, "localhost", "").Body.String()
	require.NotContains(t, body, "Ann")
	require.Contains(t, body, `"state":"resolved"`)
}

func TestLinksAcknowledge(t *testing.T) {
	dir := t.TempDir()
	a, g := built(t, dir, "web: {external_url: 'https://slo.example/'}\n", "127.0.0.1:0")
	serving(t, a, g)
	info, err := os.Stat(filepath.Join(dir, "data", engine.LinkKeyFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	inc := askIncident(t, a, http.StatusCreated, "POST", "/api/v1/incidents", `{"title":"<b>down</b>","by":"Ann"}`)
	path := a.incidents.links.path(inc.ID)
	address, err := url.Parse(path)
	require.NoError(t, err)
	// Programs that fetch links acknowledge nothing.
	page := request(a, "GET", path, "slo.example", "")
	require.Equal(t, http.StatusOK, page.Code, page.Body)
	require.Contains(t, page.Body.String(), "&lt;b&gt;down")
	require.Equal(t, "same-origin", page.Header().Get("Referrer-Policy"))
	request(a, "HEAD", path, "slo.example", "")
	require.Equal(t, "open", askIncident(t, a, http.StatusOK, "GET", "/api/v1/incidents/"+inc.ID, "").State)

	post := func(id string, form url.Values, headers ...string) int {
		headers = append([]string{"Content-Type", "application/x-www-form-urlencoded"}, headers...)
		return request(a, "POST", "/acknowledge/"+id, "slo.example", form.Encode(), headers...).Code
	}
	form := address.Query()
	form.Set("by", "Bob <b>")
	form.Set("team", "ops")
	own := []string{"Origin", "http://slo.example"}
	require.Equal(t, http.StatusForbidden, post(inc.ID, form), "no browser sends a form without its origin")
	require.Equal(t, http.StatusForbidden, post("INC-2026-11-0009", form, own...), "of another incident")
	for name, value := range map[string]string{"until": "9999999999", "signature": "00"} {
		forged := address.Query()
		forged.Set(name, value)
		require.Equal(t, http.StatusForbidden, post(inc.ID, forged, own...), name)
		require.Equal(
			t, http.StatusForbidden, request(a, "GET", "/acknowledge/"+inc.ID+"?"+forged.Encode(), "slo.example", "").Code)
	}
	nameless := address.Query()
	require.Equal(t, http.StatusBadRequest, post(inc.ID, nameless, own...))
	require.Equal(t, http.StatusOK, post(inc.ID, form, own...))
	got := askIncident(t, a, http.StatusOK, "GET", "/api/v1/incidents/"+inc.ID, "")
	require.Equal(t, "Bob <b>", got.Ack.By)
	require.Equal(t, incident.ByLink, got.Ack.How)
	require.Contains(t, request(a, "GET", path, "slo.example", "").Body.String(), "acknowledged by Bob &lt;b&gt;")

	a.incidents.links.now = func() time.Time { return time.Now().Add(7 * 24 * time.Hour) }
	require.Contains(t, request(a, "GET", path, "slo.example", "").Body.String(), "expired")

	// The same key after a restart, and none but a whole one.
	require.NoError(t, g.stop(t.Context()))
	links, err := newAckLinks(fsys.OS(), filepath.Join(dir, "data"))
	require.NoError(t, err)
	require.NoError(t, links.verify(inc.ID, address.Query().Get("until"), address.Query().Get("signature")))
	writeFile(t, filepath.Join(dir, "data"), engine.LinkKeyFile, "short")
	_, err = newAckLinks(fsys.OS(), filepath.Join(dir, "data"))
	require.ErrorContains(t, err, "64 hexadecimal digits")
}

// What incidents are about: pages and tickets of services, alerts on the engine, and no notices.
func TestAlertsThatConcernIncidents(t *testing.T) {
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	firing := func(name, severity string, urgent, own bool, fired time.Time) state.Alert {
		return state.Alert{Fingerprint: name, Name: name, Severity: severity, Urgent: urgent, Engine: own,
			State: state.Firing, FiredAt: fired, FirstBad: fired}
	}
	shop := firing("page", "critical", true, false, at)
	shop.Service = "shop"
	now := liveIncidentAlerts(&state.View{Time: at, Active: []state.Alert{
		shop, firing("DiskLow", "critical", true, true, at.Add(time.Second)),
		firing("LatencySLAWarning", "warning", false, false, at),
		firing("Watchdog", "none", false, true, at), firing("LatencySLARecovered", "info", false, false, at),
		{Name: "waits", State: state.Pending},
	}})
	require.Equal(t, at.Add(time.Second), now.Time)
	require.Len(t, now.Firing, 3)
	require.Equal(t, "shop", now.Firing[0].Service)
	require.Equal(t, incident.Critical, now.Firing[0].Severity)
	require.Equal(t, incident.EngineService, now.Firing[1].Service)
	require.Equal(t, incident.Warning, now.Firing[2].Severity)
	require.True(t, now.Firing[2].Proactive)
}

// The steps from which the onset is read cover the time without a hole and become finer towards its end.
func TestOnsetSteps(t *testing.T) {
	end := time.Date(2026, 11, 22, 10, 0, 7, 0, time.UTC)
	for _, slice := range []time.Duration{0, time.Minute, 7 * time.Minute} {
		steps := onsetSteps(slo.Span{From: end.Add(-6 * 24 * time.Hour), To: end}, slice)
		require.LessOrEqual(t, len(steps), 6000)
		for i, sp := range steps {
			require.True(t, sp.To.After(sp.From))
			if i > 0 {
				require.Equal(t, steps[i-1].To, sp.From)
			}
			if slice > 0 {
				require.Zero(t, sp.From.UnixNano()%int64(slice))
			}
		}
		require.False(t, steps[0].From.After(end.Add(-6*24*time.Hour)))
		require.False(t, steps[len(steps)-1].To.Before(end))
		require.Equal(t, max(10*time.Second, slice), steps[len(steps)-1].Duration())
	}
}

// TestOpenIncidentsAreBounded: incidents that are not resolved are never removed, so their notes have a bound.
func TestOpenIncidentsAreBounded(t *testing.T) {
	a, g := built(t, t.TempDir(), "", "127.0.0.1:0")
	serving(t, a, g)
	do := func(o incident.Operation) (*incident.Incident, error) {
		o.By = "Ann"
		return a.incidents.Do(t.Context(), o)
	}
	text, written := strings.Repeat("я", incident.MaxText), 0
	var first *incident.Incident
	for written < 2*incident.MaxOpenTexts {
		inc, err := do(incident.Operation{Kind: incident.OpenByHand, Title: "down", Severity: incident.Critical,
			Key: strings.Repeat("k", 1+written>>20)})
		require.NoError(t, err)
		if first == nil {
			first = inc
		}
		for range 50 {
			if _, err = do(incident.Operation{Kind: incident.AddNote, ID: inc.ID, Text: text}); err != nil {
				break
			}
			written += len(text)
		}
		if err != nil {
			require.ErrorIs(t, err, incident.ErrFull)
			break
		}
	}
	require.InDelta(t, incident.MaxOpenTexts, written, float64(2*len(text)))
	_, err := do(incident.Operation{Kind: incident.AddUpdate, ID: first.ID, Text: "more"})
	require.ErrorIs(t, err, incident.ErrFull)
	_, err = do(incident.Operation{Kind: incident.ResolveIt, ID: first.ID})
	require.NoError(t, err)
	_, err = do(incident.Operation{Kind: incident.AddUpdate, ID: first.ID, Text: "more"})
	require.NoError(t, err, "what is resolved is removed one day")
}

// TestIncidentStates gives each change that others may see another version, and the same incident the same document.
func TestIncidentStates(t *testing.T) {
	a, g := built(t, t.TempDir(), "", "127.0.0.1:0")
	_, ok := a.incidents.States()
	require.False(t, ok, "the engine has not recovered")
	serving(t, a, g)
	hostile := "sh\"op\u202e\u00a0é"
	inc, err := a.incidents.Do(t.Context(), incident.Operation{Kind: incident.OpenByHand, Title: "down <b>", By: "Ann",
		Severity: incident.Critical, Key: "k", Service: hostile})
	require.NoError(t, err)
	seen := map[string]bool{}
	look := func(o incident.Operation, changed bool) {
		t.Helper()
		if o.Kind != "" {
			o.ID, o.By = inc.ID, "Ann"
			_, err := a.incidents.Do(t.Context(), o)
			require.NoError(t, err)
		}
		all, ok := a.incidents.States()
		require.True(t, ok)
		require.Len(t, all, 1)
		s := all[0]
		require.Equal(t, changed, !seen[s.Version])
		seen[s.Version] = true
		require.Equal(t, inc.ID, s.ID)
		require.Equal(t, hostile, s.Service)
		require.Equal(t, "page", s.Severity)
		require.Equal(t, o.Kind == incident.ResolveIt, s.Resolved)
		require.WithinDuration(t, time.Now(), s.At, time.Minute)
		require.Equal(t, s.Document(), s.Document())
		require.NotContains(t, string(s.Document()), "secret")
		require.Contains(t, string(s.Document()), `"id":"`+inc.ID+`"`)
	}
	look(incident.Operation{}, true)
	look(incident.Operation{}, false)
	look(incident.Operation{Kind: incident.AckIt, How: incident.ByAPI}, true)
	look(incident.Operation{Kind: incident.AddNote, Text: "secret"}, false)
	look(incident.Operation{Kind: incident.AddUpdate, Text: "we look"}, true)
	look(incident.Operation{Kind: incident.ResolveIt}, true)

	// No notification goes out for an incident whose alerts are sent by rules in Prometheus.
	byRules := &incident.Incident{Alerts: []incident.Alert{{SLO: "shop/a"}}}
	require.True(t, a.incidents.tells(byRules))
	view := state.View{SentBy: map[slo.ID]state.SentBy{"shop/a": {By: slo.AlertsRules}}}
	a.incidents.sends = view.Sends
	require.False(t, a.incidents.tells(byRules))
	byRules.Alerts = append(byRules.Alerts, incident.Alert{SLO: "shop/b"})
	require.True(t, a.incidents.tells(byRules))
}
