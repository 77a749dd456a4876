package app

import (
	"time"

	"github.com/sloengine/sloengine/ingest/rejects"
	"github.com/sloengine/sloengine/web/status"
)

// rejected is what the table has, for pages and API.
func rejected(t *rejects.Table) []status.RejectedCode {
	codes := t.Snapshot()
	out := make([]status.RejectedCode, len(codes))
	for i, c := range codes {
		out[i] = status.RejectedCode{Code: c.Code, Events: c.Events, Requests: c.Requests, Last: c.Last.UTC().Truncate(time.Millisecond), Others: c.Others, Senders: make([]status.RejectedSender, len(c.Senders))}
		for j, r := range c.Senders {
			out[i].Senders[j] = status.RejectedSender{
				Token: r.Token, Address: r.Address, Service: r.Service, Count: r.Count, First: r.First.UTC().Truncate(time.Millisecond), Last: r.Last.UTC().Truncate(time.Millisecond),
				Detail: r.Detail, Sample: r.Sample,
			}
		}
	}
	return out
}
