package web

import "github.com/sloengine/sloengine/web/status"

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
