package web

import (
	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/web/status"
)

// rejectRow is what one sender had rejected with one code.
type rejectRow struct {
	Code string
	status.RejectedSender
}

const (
	// maxRejectRows bounds the table. The API and the command have the rest.
	maxRejectRows = 30
	// maxRejectSenders bounds the senders of a code, so that each code has room.
	maxRejectSenders = 5
)

func newRejectRows(codes []status.RejectedCode) (rows []rejectRow) {
	for _, c := range codes {
		rest := status.RejectedSender{Count: c.Others, Last: c.Last}
		rest.Address = "others"
		for i, s := range c.Senders {
			if i >= maxRejectSenders || len(rows) >= maxRejectRows {
				rest.Count += s.Count
				continue
			}
			rows = append(rows, rejectRow{c.Code, s})
		}
		if rest.Count > 0 && len(rows) < maxRejectRows {
			rows = append(rows, rejectRow{c.Code, rest})
		}
	}
	return rows
}

// maxUnknownRows bounds the types on the page.
const maxUnknownRows = 30

// unknownPart lists the types of events that no spec counts, the latest first.
type unknownPart struct {
	Rows []status.UnknownType
	More int
}

func newUnknownPart(list []status.UnknownType) *unknownPart {
	if len(list) == 0 {
		return nil
	}
	order.By(list, func(a, b *status.UnknownType) int { return b.Last.Compare(a.Last) })
	n := min(len(list), maxUnknownRows)
	return &unknownPart{Rows: list[:n], More: len(list) - n}
}
