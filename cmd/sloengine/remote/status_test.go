package remote

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/ingest/rejects"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web"
	"github.com/sloengine/sloengine/web/api/v1"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

func sampleStatus() *engineStatus {
	f := func(x float64) *float64 { return &x }
	day := make([]v1.HistoryPoint, 24)
	for i := range day {
		day[i].Ratio = f(1 - float64(i)/100)
	}
	s := &engineStatus{
		Failing: &v1.Failing{Summary: "mdm failing since 10:00 UTC: \x1b[2J3 products affected."},
		Agreements: []v1.SLA{
			{Service: "shop", SLA: "gold-customers-in-europe", Window: "month in Europe/Berlin", HasData: true, Breached: true,
				Score: f(91.25), Low: f(80), High: f(95), Missing: 1, Worst: new("checkout-availability-of-all-regions")},
			{Service: "shop", SLA: "silver", Window: "30d", HasData: true, Score: f(99.9)},
			{Service: "shop", SLA: "new", Window: "30d"},
		},
		Alerts: []v1.Alert{{Name: "ErrorBudgetBurnRatePage", State: "firing", Severity: "page", Service: "shop",
			SLO: new(slo.ID("shop/checkout-availability")), Group: map[string]string{"region": "eu"},
			ActiveSince: new(time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC))}},
	}
	for _, state := range []slo.State{slo.StateExhausted, slo.StateAtRisk, slo.StateOK, slo.StateNoData} {
		r := &statusRow{SLO: v1.SLO{
			ID: "shop/checkout-availability-of-all-payment-methods", Group: map[string]string{"region": "日本語の長い値 with a tail"},
			Percent: "99.9", Window: "30d", State: state, Rate: f(12.5),
		}, History: day}
		r.Budget.SLI, r.Budget.Remaining = f(0.99912), f(0.12)
		s.SLOs = append(s.SLOs, r)
	}
	return s
}

func printed(t *testing.T, screen cli.Screen) []string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, sampleStatus().print(&out, screen))
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func TestStatusFitsTheTerminal(t *testing.T) {
	t.Parallel()
	for _, width := range []int{80, 140} {
		lines := printed(t, cli.Screen{Width: width})
		for _, line := range lines {
			require.LessOrEqual(t, uniseg.StringWidth(line), width, line)
		}
		text := strings.Join(lines, "\n")
		for _, want := range []string{"SLO OF shop", "exhausted  checkout-av", "at risk", "no data", "12.0%",
			"BUDGET LEFT", "breached", "91.25", "met", "page", "firing"} {
			require.Contains(t, text, want, width)
		}
		require.Equal(t, width == 140, strings.Contains(text, "▁▁▂"), "the last day is shown where it has room")
	}
	text := strings.Join(printed(t, cli.Screen{}), "\n")
	require.Regexp(t, `^mdm failing since 10:00 UTC: .*3 products affected\.\n\nSEVERITY`, text, "what fails comes first")
	require.NotContains(t, text, "SLO OF")
	require.Contains(t, text, "shop/checkout-availability-of-all-payment-methods  日本語の長い値 with a tail",
		"nothing is cut off in a file")
	require.NotContains(t, text, "\x1b")
	require.NotContains(t, text, "…")
}

// What pages comes first, and is not called ok.
func TestStatusOfWhatPages(t *testing.T) {
	t.Parallel()
	row := func(name string, state slo.State, paging bool) *statusRow {
		return &statusRow{
			SLO: v1.SLO{ID: slo.ID("shop/" + name), Percent: "99.9", Window: "30d", State: state, Paging: paging}}
	}
	rows := []*statusRow{row("a", slo.StateOK, false), row("b", slo.StateOK, true), row("c", slo.StateExhausted, false)}
	rows[0].Waiting = true // for a first event
	sortWorstFirst(rows)
	var out bytes.Buffer
	require.NoError(t, sloTable(rows).Write(&out, cli.Screen{}))
	require.Regexp(t, `(?s)firing +shop/b .*exhausted +shop/c .*waiting for data +shop/a `, out.String())
}

func TestStatusHasColoursOnATerminal(t *testing.T) {
	coloured, plain := printed(t, cli.Screen{Width: 140, Colour: true}), printed(t, cli.Screen{Width: 140})
	require.Contains(t, strings.Join(coloured, "\n"), "\x1b[31mexhausted\x1b[0m  checkout-")
	require.Contains(t, strings.Join(coloured, "\n"), "\x1b[32mmet\x1b[0m")
	strip := strings.NewReplacer("\x1b[31m", "", "\x1b[32m", "", "\x1b[33m", "", "\x1b[2m", "", "\x1b[0m", "")
	require.Equal(t, plain, strings.Split(strip.Replace(strings.Join(coloured, "\n")), "\n"), "colours move no column")

	file, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	defer file.Close()
	require.Equal(t, cli.Screen{}, cli.ScreenOf(file), "a file is no terminal")
	require.Equal(t, cli.Screen{}, cli.ScreenOf(&bytes.Buffer{}))
}

func TestStatusPrintsRejects(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	codes := []status.RejectedCode{
		{Code: "unknown_type", Events: 7, Last: now, Others: 2, Senders: []status.RejectedSender{
			{Sender: rejects.Sender{Token: "shop"}, Service: "shop\x1b[31m", Count: 5, First: now, Last: now,
				Detail: "the spec has no type requst", Sample: `{"type":"requst"}`},
		}}}
	w, err := web.New(site.Options{
		Numbers: site.Numbers{Report: func() *sla.Report { return nil }}, Now: func() time.Time { return now },
		Condition: site.Condition{
			Rejects: func() []status.RejectedCode { return codes }, Engine: func() status.Engine { return status.Engine{} },
		},
	})
	require.NoError(t, err)
	router := gin.New()
	w.Register(router)
	server := httptest.NewServer(router)
	defer server.Close()
	ask := func(args ...string) string {
		var out, stderr bytes.Buffer
		require.Equal(t, cli.ExitOK, execute(cli.Streams{Out: &out, Err: &stderr},
			append([]string{"status", "--rejects", "--url", server.URL}, args...)...), stderr.String())
		return out.String()
	}
	require.Regexp(t,
		`(?m)^unknown_type  token shop  shop\\x1b\[31m  5      2026-11-20 12:00:00Z  the spec has no type requst  `+
			`\{"type":"requst"\}$`, ask())
	require.Regexp(t, `(?m)^unknown_type  others +2 `, ask())
	require.Contains(t, ask("-o", "json"), `"count": 5`)
	codes = nil
	require.Empty(t, ask())
}

// The engine answers, then fails, then answers again.
func TestStatusIsWatched(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/api/v1/slos":
			fmt.Fprint(w, `{"items":[],"points":[]}`)
			return
		case asked == 2:
			cancel()
		}
		if asked++; asked == 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, `{"report":{"version":1},"items":[{"id":"shop/a","state":"exhausted"},{"id":"shop/b","state":"ok"},`+
			`{"id":"mail/c","state":"ok","paging":true}]}`)
	}))
	defer server.Close()
	var out, stderr bytes.Buffer
	s := cli.Streams{Out: &out, Err: &stderr}
	root := &cobra.Command{Use: "sloengine"}
	root.AddCommand(Commands(s)...)
	cli.Complete(root, Names)
	args := []string{"status", "--url", server.URL, "--state", "exhausted"}
	require.Equal(t, cli.ExitOK, cli.Execute(ctx, root, s, append(args, "--watch=1s")), stderr.String())
	require.Regexp(t, `(?s)^\S+Z\n\nSTATE.*exhausted  shop/a.*\n\n\S+Z\n\n.*503.*\n\n$`, out.String())
	require.NotContains(t, out.String(), "/b")

	for state, want := range map[string]string{"exhausted": "shop/a", "firing": "mail/c",
		"no_data": "No SLO is in the state no_data."} {
		out.Reset()
		require.Equal(t, cli.ExitOK, execute(s, "status", "--url", server.URL, "--state", state), stderr.String())
		require.Contains(t, out.String(), want)
	}
	require.Equal(t, cli.ExitUsage, execute(s, append(args, "--watch", "-o", "json")...))
	require.Contains(t, stderr.String(), "--watch needs a table")

	for flag, want := range map[string]string{"--service": "mail\nshop\n:4", "--state": "firing\nexhausted\nat_risk\n"} {
		out.Reset()
		require.Equal(t, cli.ExitOK,
			cli.Execute(t.Context(), root, s, []string{"__complete", "status", "--url", server.URL, flag, ""}))
		require.Contains(t, out.String(), want)
	}
	out.Reset()
	require.Equal(t, cli.ExitOK,
		cli.Execute(t.Context(), root, s, []string{"__complete", "gate", "--url", server.URL, "--slo", ""}))
	require.Contains(t, out.String(), "mail/c\nshop/a\nshop/b\n:4")
}

func TestStatusOfOneSLO(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/slos":
			require.Equal(t, "shop", r.URL.Query().Get("service"))
			fmt.Fprint(w, `{"report":{"version":1},"items":[{"id":"shop/a","group":{"product":"x"},"state":"exhausted"},`+
				`{"id":"shop/b","state":"ok"},{"id":"shop/r","state":"ok"}]}`)
		case "/api/v1/slos/shop/a/ledger":
			require.Equal(t, "x", r.URL.Query().Get("group.product"))
			fmt.Fprint(w, `{"id":"shop/a","group":{"product":"x"},"accounts":["correction","incident","unexplained"],"ledger":
				{"unit":"events","spent":12.5,"consumed":1.25,"since_report":2,"lines":[
				{"account":"correction","name":"upgrade","from":"2026-11-20T00:00:00Z","to":"2026-11-20T01:00:00Z","times":1,
				"bad":7},
				{"account":"incident","name":"INC-1","text":"all fail","same":["INC-2"],"from":"2026-11-20T02:00:00Z",
				 "to":"2026-11-20T03:00:00Z","times":2,"bad":10,"consumed":1},
				{"account":"unexplained","bad":2.5,"consumed":0.25,"from":"2026-11-20T02:00:00Z","to":"2026-11-20T03:00:00Z",
				 "times":1}]}}`)
		case "/api/v1/slos/shop/r/ledger":
			fmt.Fprint(w, `{"id":"shop/r","ledger":null,"why":"Missing events have no time."}`)
		default:
			fmt.Fprint(w, `{}`)
		}
	}))
	defer server.Close()
	var out, stderr bytes.Buffer
	s := cli.Streams{Out: &out, Err: &stderr}
	require.Equal(t, cli.ExitOK, execute(s, "status", "--url", server.URL, "--slo", "shop/a"), stderr.String())
	require.NotContains(t, out.String(), "shop/b")
	require.Contains(t, out.String(), `
shop/a x spent 125.0% of its budget on 12.5 bad events:
ACCOUNT      CAUSE                  FROM                  TO                    TIMES  BAD  OF THE BUDGET
correction   upgrade                2026-11-20T00:00:00Z  2026-11-20T01:00:00Z  1      7    beside
incident     INC-1, INC-2 all fail  2026-11-20T02:00:00Z  2026-11-20T03:00:00Z  2      10   100.0%
unexplained                                                                            2.5  25.0%
2 of them were received after the report above.
charged in the order: correction, incident, unexplained
`)
	out.Reset()
	require.Equal(t, cli.ExitOK, execute(s, "status", "--url", server.URL, "--slo", "shop/r"), stderr.String())
	require.Contains(t, out.String(), "\nshop/r: Missing events have no time.\n")
	out.Reset()
	require.Equal(t, cli.ExitOK, execute(s, "status", "--url", server.URL, "--slo", "shop/a", "--state", "ok"),
		stderr.String())
	require.Contains(t, out.String(), "No group of shop/a is in the state ok.")
	require.Equal(t, cli.ExitUsage, execute(s, "status", "--url", server.URL, "--slo", "shop"))
	require.Equal(t, cli.ExitUsage, execute(s, "status", "--url", server.URL, "--slo", "shop/a", "--service", "shop"))
	require.NotEqual(t, cli.ExitOK, execute(s, "status", "--url", server.URL, "--slo", "shop/z"))
	require.Contains(t, stderr.String(), "there is no SLO shop/z in the running spec")
}
