package receivers

import (
	"strings"
	"testing"

	"github.com/prometheus/alertmanager/template"
	"github.com/stretchr/testify/require"
)

// TestAlertLink: a message links to the page of each alert where its address is known, and its title to that of the
// only one.
func TestAlertLink(t *testing.T) {
	const address = "https://slo.example.org/sla/alert?id=00000000000000ff"
	for _, c := range []struct {
		name        string
		annotations template.KV
		text, mail  string // that the message has; "": it has no link to the page of an alert
		title       string
	}{
		{"known", template.KV{"alert": address, "page": "https://slo.example.org/sla/slo?id=a"},
			"Alert: " + address + "\n", `<a href="` + address + `">Alert</a>`, address},
		{"in an incident", template.KV{"alert": address, "incident": "https://slo.example.org/sla/incident?id=7"},
			"Alert: " + address + "\n", `<a href="` + address + `">Alert</a>`, "https://slo.example.org/sla/incident?id=7"},
		{"not known", template.KV{"runbook_url": "https://example.org/r.md"}, "", "", "https://am.example.org"},
		{"without annotations", nil, "", "", "https://am.example.org"},
		{"a script", template.KV{"alert": "javascript:x"}, "Alert: javascript:x\n", `<a href="#ZgotmplZ">Alert</a>`,
			"javascript:x"},
	} {
		templates, err := newTemplates(nil, "", "https://am.example.org")
		require.NoError(t, err)
		data := &template.Data{Status: "firing", ExternalURL: "https://am.example.org", CommonAnnotations: c.annotations,
			Alerts: template.Alerts{{Status: "firing", Annotations: c.annotations}}}
		text, err := templates.ExecuteTextString(`{{ template "slack.default.text" . }}`, data)
		require.NoError(t, err, c.name)
		mail, err := templates.ExecuteHTMLString(`{{ template "email.default.html" . }}`, data)
		require.NoError(t, err, c.name)
		title, err := templates.ExecuteTextString(`{{ template "__alertmanagerURL" . }}`, data)
		require.NoError(t, err, c.name)
		require.Equal(t, c.title, title, c.name)
		if c.text == "" {
			require.NotContains(t, text, "Alert:", c.name)
			require.NotContains(t, mail, ">Alert<", c.name)
			continue
		}
		require.Contains(t, text, c.text, c.name)
		require.Contains(t, mail, c.mail, c.name)
	}
}

// TestLinksToTraces: a message of a firing alert links to failing traces, to fewer of them where there is little room.
func TestLinksToTraces(t *testing.T) {
	templates, err := newTemplates(nil, "", "https://am.example.org")
	require.NoError(t, err)
	link := func(n string) string { return "https://tempo.example/trace/" + strings.Repeat(n, 32) + "?a=1&b=2" }
	alert := template.Alert{Status: "firing", Labels: template.KV{"alertname": "a"},
		Annotations: template.KV{"failing_traces": link("1") + " " + link("2") + " javascript:alert(3)"}}
	data := &template.Data{Status: "firing", ExternalURL: "https://am.example.org", Alerts: template.Alerts{alert}}
	text, err := templates.ExecuteTextString(`{{ template "slack.default.text" . }}`, data)
	require.NoError(t, err)
	require.Contains(t, text, "Failing traces: "+link("1")+" "+link("2")+" javascript:alert(3)\n")
	mail, err := templates.ExecuteHTMLString(`{{ template "email.default.html" . }}`, data)
	require.NoError(t, err)
	require.Contains(t, mail, `<p>Failing traces: <a href="https://tempo.example/trace/`+strings.Repeat("1", 32)+
		`?a=1&amp;b=2">trace</a> <a href="https://tempo.example/trace/`+strings.Repeat("2", 32)+
		`?a=1&amp;b=2">trace</a> <a href="#ZgotmplZ">trace</a></p>`)

	alert.Annotations["why"] = "Without bank=<X> it would be 1."
	require.Contains(t, alertLines(alert, 500), "Why: Without bank=<X> it would be 1.\n")
	data.Alerts = template.Alerts{alert}
	mail, err = templates.ExecuteHTMLString(`{{ template "email.default.html" . }}`, data)
	require.NoError(t, err)
	require.Contains(t, mail, "<p>Without bank=&lt;X&gt; it would be 1.</p>")
	delete(alert.Annotations, "why")
	alert.Annotations["forecast"] = "exhausted in 6h at this pace"
	require.Contains(t, alertLines(alert, 500), "Forecast: exhausted in 6h at this pace\n")
	data.Alerts = template.Alerts{alert}
	mail, err = templates.ExecuteHTMLString(`{{ template "email.default.html" . }}`, data)
	require.NoError(t, err)
	require.Contains(t, mail, "<p>Forecast: exhausted in 6h at this pace</p>")
	delete(alert.Annotations, "forecast")

	require.Contains(t, alertLines(alert, 180), "Failing traces: "+link("1")+" "+link("2")+"\n")
	require.Contains(t, alertLines(alert, 120), "Failing traces: "+link("1")+"\n")
	require.NotContains(t, alertLines(alert, 60), "traces")

	data.Alerts[0].Status = "resolved"
	text, err = templates.ExecuteTextString(`{{ template "slack.default.text" . }}`, data)
	require.NoError(t, err)
	require.NotContains(t, text, "traces")
	mail, err = templates.ExecuteHTMLString(`{{ template "email.default.html" . }}`, data)
	require.NoError(t, err)
	require.NotContains(t, mail, "traces")
}
