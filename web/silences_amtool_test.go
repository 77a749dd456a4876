package web

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/silence"
	"github.com/sloengine/sloengine/web/silences"
	"github.com/sloengine/sloengine/web/site"
)

// TestAmtoolSilences adds, lists, changes and expires silences with the real amtool.
func TestAmtoolSilences(t *testing.T) {
	tool, err := exec.LookPath("amtool")
	if err != nil || os.Getenv("SLOENGINE_QUICK") != "" {
		t.Skip("needs amtool: apt-get install prometheus-alertmanager")
	}
	b, d := withSilences(t, func(o *site.Options) { o.Now = time.Now }) // as amtool does
	server := httptest.NewServer(b.router)
	t.Cleanup(server.Close)
	amtool := func(want string, args ...string) {
		t.Helper()
		out, err := exec.Command(
			tool, append([]string{"--alertmanager.url=" + server.URL, "silence"}, args...)...).CombinedOutput()
		require.Equal(t, strings.HasPrefix(want, "!"), err != nil, "%s", out)
		require.Contains(t, string(out), strings.TrimPrefix(want, "!"))
	}
	add := []string{"add", "--author=Ann", "--comment=known", "--duration=2h", `service="shop"`}
	amtool("", append(add, `severity=~"page|ticket"`, `product!="a\"b"`)...)
	first := d.Silences()[0]
	require.Equal(t, `service="shop",severity=~"page|ticket",product!="a\"b"`, first.Matchers)
	require.Equal(t, []string{"Ann", "known"}, []string{first.Author, first.Comment})
	require.Equal(t, silence.Active, first.State(time.Now()))
	require.InDelta(t, 2*time.Hour, first.Ends.Sub(first.Starts), float64(time.Minute))
	amtool(first.ID, "query", "service=shop")
	amtool(`severity=~"page|ticket"`, "query", "-o", "extended")
	amtool("", "query", "-q", "service=web")

	amtool("", "update", first.ID, "--duration=3h")
	second := d.Silences()[0]
	require.Equal(t, first.Matchers, second.Matchers)
	require.InDelta(t, 3*time.Hour, second.Ends.Sub(second.Starts), float64(time.Minute))
	amtool(first.ID, "query", "--expired", "-q")
	amtool("", "expire", second.ID)
	for _, s := range d.Silences() {
		require.Equal(t, silence.Expired, s.State(time.Now()))
	}
	amtool("!getSilenceNotFound", "update", "none", "--duration=3h")
	amtool("!would match every alert", "add", "--author=Ann", "--comment=known", `service=~".*"`)
}

// TestV2Silences: what amtool does not show. Who is refused, and how a body is read.
func TestV2Silences(t *testing.T) {
	b, d := withSilences(t)
	post := func(body string, header ...string) (int, string) {
		rec := b.send(silences.V2Path, body, append([]string{"Content-Type", "application/json"}, header...)...)
		return rec.Code, strings.TrimSpace(rec.Body.String())
	}
	with := func(matchers string) string {
		return `{"matchers":` + matchers +
			`,"startsAt":"2020-01-01T00:00:00Z","endsAt":"2026-11-22T12:00:00Z","createdBy":"a","comment":"c"}`
	}
	for body, want := range map[string]string{
		`{"odd":1}`: `"invalid silence: body: odd: unknown field`,
		with(`[{"name":"a=b,c","value":"x","isRegex":false}]`): `"invalid silence: matchers: no label`,
		with(`[{"name":"a","value":"(","isRegex":true}]`):      `"invalid silence: matchers: no label`,
		with(`[]`): "would match every alert",
		`{"id":"x",` + with(`[{"name":"a","value":"b","isRegex":false}]`)[1:]: "There is no silence with this id.",
	} {
		status, text := post(body)
		require.Contains(t, []int{http.StatusBadRequest, http.StatusNotFound}, status, body)
		require.Contains(t, text, want)
	}
	good := with(`[{"name":"service","value":"shop","isRegex":false}]`)
	status, _ := post(good, "Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusForbidden, status)
	require.Empty(t, d.Silences())
	status, text := post(good)
	require.Equal(t, http.StatusOK, status, text)
	s := d.Silences()[0]
	require.Equal(t, `{"silenceID":"`+s.ID+`"}`, text)
	require.Equal(t, b.now.UTC(), s.Starts, "what is past is not silenced")
	one := "/api/v2/silence/" + s.ID
	require.Contains(
		t, b.get(one).Body.String(), `"matchers":[{"name":"service","value":"shop","isRegex":false,"isEqual":true}]`)
	require.Equal(t, http.StatusNotFound, b.get("/api/v2/silence/x").Code)
	require.Equal(t, http.StatusBadRequest, b.get(silences.V2Path+"?filter=a").Code)
	require.Equal(t, http.StatusForbidden, b.do(http.MethodDelete, one, "Sec-Fetch-Site", "cross-site").Code)
	require.Equal(t, http.StatusNotFound, b.do(http.MethodDelete, "/api/v2/silence/x").Code)
	require.Equal(t, http.StatusOK, b.do(http.MethodDelete, one).Code)
	require.Equal(t, silence.Expired, new(d.Silences()[0]).State(b.now))
	require.Equal(t, http.StatusNotImplemented, newBench(t).get(silences.V2Path).Code)
}
