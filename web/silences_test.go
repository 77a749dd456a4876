package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/alertmanager"
	"github.com/sloengine/sloengine/alerts/notify"
	"github.com/sloengine/sloengine/alerts/receivers"
	"github.com/sloengine/sloengine/alerts/silence"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/web/api/v1"
	"github.com/sloengine/sloengine/web/silences"
	"github.com/sloengine/sloengine/web/site"
)

const nobody = "receivers: [{name: nobody}]\n"

// someReceivers has one receiver, which is told nothing.
var someReceivers = receivers.Settings{Text: "route: {receiver: nobody}\n" + nobody,
	Routing: alertmanager.Routing{Document: []byte("route: {receiver: nobody}\n" + nobody)}}

// newSilences are the silences of receivers.
func newSilences(t testing.TB, s receivers.Settings, now func() time.Time) *receivers.Dispatcher {
	d, err := receivers.New(
		receivers.Options{Settings: s, File: filepath.Join(t.TempDir(), "notifications.json"), Now: now})
	require.NoError(t, err)
	return d
}

// withSilences is a bench with receivers.
func withSilences(t *testing.T, change ...func(*site.Options)) (*bench, *receivers.Dispatcher) {
	var d *receivers.Dispatcher
	b := newBench(t, append(change, func(o *site.Options) {
		d = newSilences(t, someReceivers, o.Now)
		o.Silences = d
	})...)
	return b, d
}

const (
	burningAlert = "ErrorBudgetBurnPagefiring"
	burningGroup = "/slo?id=insurance-unpaid/availability&group.product=TRVL10"
)

func (b *bench) silence(values url.Values, header ...string) *httptest.ResponseRecorder {
	return b.send("/silences/do", values.Encode(), append(append([]string{}, ownForm...), header...)...)
}

// A reader sees which alerts are silenced, and one who may silences them.
func TestSilencesOnPages(t *testing.T) {
	var audits []string
	b, d := withSilences(t, func(o *site.Options) {
		o.Audit = func(_ *gin.Context, action, detail string, err error) {
			audits = append(audits, auditLine(action, detail, err))
		}
		o.Caller = func(*gin.Context) string { return "ops" }
	})
	page := text(check(t, b.get("/silences").Body.String()))
	require.Contains(t, page, "No alert is silenced")
	require.Contains(t, page, "Add a silence")
	require.Contains(t, b.get("/").Body.String(), `<a href="/silences">Silences</a>`)

	form := "/silences/new?alert=" + burningAlert
	for _, from := range []string{"/", burningGroup} {
		require.Contains(t, b.get(from).Body.String(), `href="`+form+`"`, from)
	}
	rec := b.get(form)
	require.Equal(t, "same-origin", rec.Header().Get("Referrer-Policy"), "else browsers hide the origin of its forms")
	filled := rec.Body.String()
	check(t, filled)
	_, filled, _ = strings.Cut(filled, "<textarea")
	_, filled, _ = strings.Cut(filled, ">")
	filled, rest, _ := strings.Cut(filled, "</textarea>")
	matchers := strings.ReplaceAll(filled, "&#34;", `"`)
	require.Equal(t, strings.Split(matchers, "\n"),
		[]string{`alertname="ErrorBudgetBurnPage"`, `product="TRVL10"`, `service="insurance-unpaid"`, `severity="page"`,
			`slo_id="insurance-unpaid/availability"`})
	require.Contains(t, rest, `<option value="2h" selected>`)
	require.Contains(t, rest, `value="ops"`, "the name of the token")

	before := b.get("/").Header().Get("ETag")
	rec = b.silence(url.Values{"do": {"add"}, "matchers": {strings.ReplaceAll(matchers, "\n", ",\r\n") + "\r\n"},
		"for": {"2h"}, "starts": {""}, "author": {" Ann "}, "comment": {"known"}})
	require.Equal(t, http.StatusSeeOther, rec.Code, rec.Body)
	require.Equal(t, "/silences?did=add", rec.Header().Get("Location"))
	s := d.Silences()[0]
	require.Equal(t, strings.ReplaceAll(matchers, "\n", ","), s.Matchers)
	require.Equal(t, []any{b.now, b.now.Add(2 * time.Hour), "Ann", "known"}, []any{s.Starts, s.Ends, s.Author, s.Comment})
	require.Contains(t, audits[0], "silence.add id=\""+s.ID)

	page = text(check(t, b.get("/silences?did=add").Body.String()))
	for _, want := range []string{"1 firing alert is silenced", "The silence was added.", "Active: 1. Pending: 0.",
		"active", `product="TRVL10"`, "known", "Ann", "2h left", "Expire"} {
		require.Contains(t, page, want)
	}
	require.Contains(t, b.get("/silences").Body.String(), `data-name="Alerts hidden now">1<`)
	require.Equal(t, http.StatusOK, b.get("/", "If-None-Match", before).Code, "the page has changed")
	for _, from := range []string{"/", burningGroup} {
		body := b.get(from).Body.String()
		check(t, body)
		require.Contains(t, body, `href="/silences#`+s.ID+`"`, from)
		require.NotContains(t, body, form, "it is silenced already")
		require.Equal(t, 1, strings.Count(body, ">silenced<"), from)
	}
	require.Equal(t, map[string][]string{"ErrorBudgetBurnPage": {s.ID}, "ErrorBudgetExhausted": {}, "SLONoData": {},
		"CompositeSLAWarning": {}}, silencedBy(t, b, "?limit=4"))

	require.Equal(t, http.StatusSeeOther, b.silence(url.Values{"do": {"expire"}, "id": {s.ID}}).Code)
	require.Equal(t, silence.Expired, new(d.Silences()[0]).State(b.now))
	require.Contains(t, audits[1], "silence.expire id=\""+s.ID)
	page = text(check(t, b.get("/silences").Body.String()))
	require.Contains(t, page, "No alert is silenced")
	require.Contains(t, page, "expired")
	require.NotContains(t, b.get("/silences").Body.String(), `value="expire"`, "it has ended")
	require.NotContains(t, b.get("/").Body.String(), ">silenced<")

	rec = b.silence(url.Values{"do": {"add"}, "matchers": {`a="b"`}, "for": {"1d"}, "starts": {"2027-01-01T00:00"},
		"author": {"Ann"}, "comment": {"new year"}})
	require.Equal(t, http.StatusSeeOther, rec.Code)
	require.Contains(t, text(check(t, b.get("/silences").Body.String())), "Pending: 1")
	require.Contains(t, b.get("/silences/new?alert=x").Body.String(), "This alert does not fire any more.")
}

func silencedBy(t *testing.T, b *bench, query string) map[string][]string {
	var list struct{ Items []v1.Alert }
	require.NoError(t, json.Unmarshal(newContract(t, b).answer(b, http.MethodGet, "/api/v1/alerts"+query, 200), &list))
	out := map[string][]string{}
	for _, a := range list.Items {
		out[a.Name] = a.SilencedBy
	}
	return out
}

func TestSilenceForms(t *testing.T) {
	b, d := withSilences(t)
	good := url.Values{"do": {"add"}, "matchers": {`a="b"`}, "for": {"2h"}, "author": {"Ann"}, "comment": {"<b>why</b>"}}
	for name, change := range map[string]url.Values{
		"matchers: bad matcher format": {"matchers": {"service"}}, "would match every alert": {"matchers": {""}},
		"choose how long": {"for": {"ever"}}, "start: want a time": {"starts": {"now"}},
		"author is missing": {"author": {" "}}, "comment is longer": {"comment": {strings.Repeat("x", 1001)}},
		"choose how long it lasts": {"for": {"-1h"}}, "longer than 366": {"for": {"3000d"}},
		"ended already": {"starts": {"2020-01-01T00:00"}},
	} {
		values := url.Values{}
		for k, v := range good {
			values[k] = v
		}
		for k, v := range change {
			values[k] = v
		}
		rec := b.silence(values)
		require.Equal(t, http.StatusBadRequest, rec.Code, name)
		page := rec.Body.String()
		require.Contains(t, text(check(t, page)), name)
		require.Contains(t, page, "<textarea", "the form again, with what was in it")
		if change["comment"] == nil {
			require.Contains(t, page, `value="&lt;b&gt;why&lt;/b&gt;"`)
		}
	}
	for name, values := range map[string]url.Values{
		"what": {}, "odd": {"do": {"explode"}}, "twice": {"do": {"add", "expire"}},
		"large": {"do": {"add"}, "matchers": {strings.Repeat("x", 60<<10)}},
	} {
		rec := b.silence(values)
		require.Equal(t, http.StatusBadRequest, rec.Code, name)
		check(t, rec.Body.String())
	}
	require.Equal(t, http.StatusNotFound, b.silence(url.Values{"do": {"expire"}, "id": {"x"}}).Code)
	require.Equal(t, http.StatusBadRequest, b.silence(good, "Content-Type", "text/plain").Code)
	require.Equal(t, http.StatusForbidden, b.silence(good, "Sec-Fetch-Site", "cross-site").Code)
	require.Equal(t, http.StatusForbidden, b.silence(good, "Sec-Fetch-Site", "").Code, "neither Sec-Fetch-Site nor Origin")
	require.Equal(t, http.StatusForbidden, b.silence(good, "Sec-Fetch-Site", "", "Origin", "null").Code)
	require.NotEqual(t, http.StatusOK, b.get("/silences/do?"+good.Encode()).Code, "a link does nothing")
	require.Empty(t, d.Silences())
}

// Without receivers silences have no effect, and the pages say so.
func TestSilencesWithoutReceivers(t *testing.T) {
	var d *receivers.Dispatcher
	b := newBench(t, func(o *site.Options) {
		d = newSilences(t, receivers.Settings{}, o.Now)
		o.Silences = d
	})
	_, err := d.AddSilence(
		silence.Silence{Matchers: `alertname=~".+"`, Ends: b.now.Add(time.Hour), Author: "a", Comment: "c"})
	require.NoError(t, err)
	page := text(check(t, b.get("/silences").Body.String()))
	require.Contains(t, page, "Silences have no effect on this engine")
	require.Contains(t, page, "If an Alertmanager notifies people of these alerts, silence them there.")
	require.NotContains(t, page, "Add a silence")
	require.Equal(t, http.StatusConflict, b.get("/silences/new").Code)
	require.Equal(t, http.StatusConflict, b.silence(url.Values{"do": {"add"}}).Code)
	list := b.get("/").Body.String()
	require.NotContains(t, list, "/silences/new")
	require.NotContains(t, list, ">silenced<")
	for _, ids := range silencedBy(t, b, "") {
		require.Empty(t, ids)
	}

	none := newBench(t)
	require.NotContains(t, none.get("/").Body.String(), "/silences")
	require.Equal(t, http.StatusNotImplemented, none.get("/silences").Code)
}

// Who may only read sees the silences and cannot press anything.
func TestSilencesOfReaders(t *testing.T) {
	b, d := withSilences(t, func(o *site.Options) {
		o.May = func(_ *gin.Context, p site.Permission) bool { return p == site.Read }
	})
	_, err := d.AddSilence(
		silence.Silence{Matchers: `severity="page"`, Ends: b.now.Add(time.Hour), Author: "a", Comment: "c"})
	require.NoError(t, err)
	for _, target := range []string{"/silences", "/", burningGroup} {
		body := b.get(target).Body.String()
		require.NotContains(t, body, `method="post"`, target)
		require.NotContains(t, body, "/silences/new", target)
	}
	require.Contains(t, b.get("/").Body.String(), ">silenced<")
}

func TestHostileSilences(t *testing.T) {
	for i, bad := range hostile {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			b, d := withSilences(t)
			b.alerts = append(b.alerts, state.Alert{
				Name: bad, State: state.Firing, Fingerprint: bad + "x", FiredAt: noon, ActiveSince: noon,
				Labels: []state.Label{{Name: "alertname", Value: bad}, {Name: "service", Value: "shop"}},
			})
			form := b.get("/silences/new?alert=" + url.QueryEscape(bad+"x")).Body.String()
			require.NotContains(t, form, "does not fire any more")
			s := silence.Silence{Matchers: silence.Equal("alertname", bad) + `,service="shop"`, Author: "x" + bad,
				Comment: "x" + bad, Ends: noon.Add(time.Hour)}
			if _, err := d.AddSilence(s); err != nil {
				require.ErrorIs(t, err, silence.ErrInvalid)
				s.Author, s.Comment = "a", "c"
				if _, err = d.AddSilence(s); err != nil {
					require.ErrorContains(t, err, "longer than")
				}
			}
			again := b.silence(url.Values{"do": {"add"}, "matchers": {bad}, "author": {bad}, "comment": {bad}, "starts": {bad},
				"for": {bad}}).Body.String()
			for _, body := range []string{form, again, b.get("/silences").Body.String(), b.get("/").Body.String(),
				b.get("/silences?did=" + url.QueryEscape(bad)).Body.String()} {
				wellFormed(t, body)
				for _, forbidden := range []string{"<img src=x", "<script>alert", "\u202e", "\u2066", "\u200f", "\x00",
					"\x1b", `href="javascript`} {
					require.NotContains(t, body, forbidden)
				}
				require.Less(t, len(body), 250_000)
			}
		})
	}
}

// silences asks all that the API has about silences.
func (k *contract) silences(b *bench) {
	defer func(all site.Silences, alerts func() *state.View) {
		b.web.Opt.Silences, b.web.Opt.Alerts = all, alerts
	}(b.web.Opt.Silences, b.web.Opt.Alerts)
	body := fmt.Sprintf(`{"matchers":"severity=\"page\"","ends_at":%q,"author":"me","comment":"c"}`,
		b.now.Add(time.Hour).Format(time.RFC3339))
	k.answer(b, http.MethodGet, silences.Path, 501)
	k.sent(b, silences.Path, body, 501)
	k.sent(b, silences.Path+"/x/expire", `{}`, 501)
	d := newSilences(k.t, someReceivers, func() time.Time { return b.now })
	b.web.Opt.Silences = d
	var added silences.Status
	require.NoError(k.t, json.Unmarshal(k.sent(b, silences.Path, body, 200), &added))
	require.Equal(k.t, silence.Active, added.State)
	require.Equal(k.t, 1, added.Alerts)
	require.Contains(k.t, string(k.answer(b, http.MethodGet, silences.Path, 200)), `"silenced_alerts":1`)
	require.Contains(k.t, string(k.answer(b, http.MethodGet, "/api/v1/alerts?severity=page&state=firing", 200)),
		`"silenced_by":["`+added.ID+`"]`)
	b.alerts[slices.IndexFunc(b.alerts, func(a state.Alert) bool {
		return a.Fingerprint == burningAlert
	})].State = state.Resolved
	require.Contains(k.t, string(k.answer(b, http.MethodGet, silences.Path, 200)), `"silenced_alerts":0`)
	b.alerts = someAlerts()
	for _, path := range []string{silences.Path, silences.Path + "/" + added.ID + "/expire"} {
		k.sent(b, path, `{"odd":1}`, 400)
		k.sent(b, path, body, 403, "Sec-Fetch-Site", "cross-site")
		k.sent(b, path, body, 415, "Content-Type", "text/plain")
		k.sent(b, path, strings.Repeat(" ", site.MaxBody+1), 413)
	}
	k.sent(b, silences.Path, `{"matchers":"service","ends_at":"2100-01-01T00:00:00Z","comment":"c"}`, 400)
	k.sent(b, silences.Path+"/x/expire", `{}`, 404)
	require.Contains(k.t, string(k.sent(b, silences.Path+"/"+added.ID+"/expire", `{}`, 200)), `"state":"expired"`)
	k.answer(b, http.MethodGet, silences.Path, 200)
	for err, status := range map[error]int{silence.ErrTooMany: 409, errors.New("disk full"): 503} {
		b.web.Opt.Silences = failingSilences{d, err}
		k.sent(b, silences.Path, body, status)
		if status == 503 {
			k.sent(b, silences.Path+"/"+added.ID+"/expire", `{}`, status)
		}
	}
}

// failingSilences cannot change anything.
type failingSilences struct {
	*receivers.Dispatcher
	err error
}

func (f failingSilences) AddSilence(silence.Silence) (silence.Silence, error) {
	return silence.Silence{}, f.err
}
func (f failingSilences) ExpireSilence(string) (silence.Silence, error) {
	return silence.Silence{}, f.err
}

// Messages to receivers are shown as text, whatever is in them, and only if the settings ask for them.
func TestPreviewsOnThePage(t *testing.T) {
	shown := quietSilences{previews: []notify.Preview{
		{At: noon, Receiver: "oncall", Subject: "mdm <b>fails</b>", Text: "first line\n<script>second</script>\u202e\n"},
		{At: noon, Receiver: "team", Subject: "Resolved: mdm", Resolved: true},
	}}
	b := newBench(t, func(o *site.Options) { o.Silences = shown })
	body := b.get("/silences").Body.String()
	page := text(check(t, body))
	require.Contains(t, page, "mdm <b>fails</b>")
	require.Contains(t, body, "<pre><bdi>first line\n&lt;script&gt;second&lt;/script&gt;\\u{202e}\n</bdi></pre>")
	require.Less(t, strings.Index(page, "oncall"), strings.Index(page, "resolved"))

	none, _ := withSilences(t)
	require.NotContains(t, none.get("/silences").Body.String(), `id="previews"`)
}

// inhibitedSilences inhibit every alert by one.
type inhibitedSilences struct {
	*receivers.Dispatcher
	by string
}

func (s inhibitedSilences) Inhibiting() func(*state.Alert) string {
	return func(*state.Alert) string { return s.by }
}

// The page of an inhibited alert and the API name the alert that inhibits it, as far as the reader may see that.
func TestInhibitedAlert(t *testing.T) {
	const cause = "ErrorBudgetExhaustedfiring"
	for _, c := range []struct {
		name, by string
		want     bool
	}{{"visible", cause, true}, {"not visible", "00000000000000ff", false}, {"none", "", false}} {
		b := newBench(t, func(o *site.Options) {
			o.Silences = inhibitedSilences{newSilences(t, someReceivers, o.Now), c.by}
		})
		page, api := b.get("/alert?id="+burningAlert).Body.String(), b.get("/api/v1/alerts").Body.String()
		require.Equal(t, c.want, strings.Contains(page, `href="/alert?id=`+cause+`"><span>Inhibited`), c.name)
		require.Equal(t, c.want, strings.Contains(api, `"inhibited_by":"`+cause+`"`), c.name)
		if c.by != "" && !c.want {
			require.NotContains(t, page+api, c.by, c.name)
		}
	}
}
