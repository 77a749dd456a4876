package web

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/rejects"
	"github.com/sloengine/sloengine/web/api"
	"github.com/sloengine/sloengine/web/status"
)

func someRejects() []status.RejectedCode {
	sender := func(token, address, sample string, n uint64) status.RejectedSender {
		return status.RejectedSender{Sender: rejects.Sender{Token: token, Address: address}, Service: hostile[0], Count: n,
			First: noon.Add(-time.Hour), Last: noon.Add(-time.Minute), Detail: "service " + hostile[0], Sample: sample}
	}
	many := status.RejectedCode{Code: "unknown_type", Events: 60, Last: noon, Others: 40,
		Senders: []status.RejectedSender{}}
	for range 10 {
		many.Senders = append(many.Senders, sender("t", "", "", 2))
	}
	return []status.RejectedCode{
		many,
		{Code: "unknown_service", Events: 1234, Last: noon,
			Senders: []status.RejectedSender{sender("shop", "", `{"service":"`+hostile[0]+`"}`, 1234)}},
		{Code: "unauthorized", Requests: 3, Last: noon, Senders: []status.RejectedSender{sender("", "192.0.2.7", "", 3)}},
	}
}

func TestRejectsAreOnTheEnginePage(t *testing.T) {
	b := newBench(t)
	require.NotContains(t, b.get("/engine").Body.String(), `id="rejects"`)
	b.web.Opt.Rejects = someRejects
	page := b.get("/engine").Body.String()
	check(t, page)
	_, section, _ := strings.Cut(page, `id="rejects"`)
	for _, want := range []string{"token shop", "192.0.2.7", "unknown_service", "1,234", "others"} {
		require.Contains(t, section, want)
	}
	require.NotContains(t, section, hostile[0], "what a sender wrote is escaped")
	rows := strings.Count(section[:strings.Index(section, "</table>")], "<tr>") - 1
	require.Equal(t, 5+1+1+1, rows, "five senders of a code, the others together, and the other codes")
}

// rejects holds what is said about rejected events to the contract.
func (k *contract) rejects(b *bench) {
	defer func() { b.web.Opt.Rejects = nil }()
	k.answer(b, http.MethodGet, api.RejectsPath, 501)
	b.web.Opt.Rejects = func() []status.RejectedCode { return nil }
	require.JSONEq(k.t, `{"items":[]}`, string(k.answer(b, http.MethodGet, api.RejectsPath, 200)))
	b.web.Opt.Rejects = someRejects
	k.answer(b, http.MethodGet, api.RejectsPath, 200)
}
