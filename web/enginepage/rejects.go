package enginepage

import (
	"time"

	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/status"
)

// rejectRow is what one sender had rejected with one code.
type rejectRow struct {
	Code, Who, Service, Count string
	Last                      format.Stamp
	Ago                       string
	Detail, Sample            string
}

const (
	// maxRejectRows bounds the table. The API and the command have the rest.
	maxRejectRows = 30
	// maxRejectSenders bounds the senders of a code, so that each code has room.
	maxRejectSenders = 5
)

func newRejectRows(codes []status.RejectedCode, now time.Time) (rows []rejectRow) {
	for _, c := range codes {
		rest := c.Others
		for i, s := range c.Senders {
			if i >= maxRejectSenders || len(rows) >= maxRejectRows {
				rest += s.Count
				continue
			}
			who := "token " + s.Token
			if s.Token == "" {
				who = s.Address
			}
			rows = append(rows, rejectRow{
				Code: format.Safe(c.Code, format.MaxName), Who: format.Safe(who, format.MaxName), Service: format.Safe(s.Service, format.MaxName), Count: format.Count(s.Count),
				Last: format.NewStamp(s.Last, now), Ago: format.Ago(s.Last, now), Detail: format.Safe(s.Detail, format.MaxTitle), Sample: format.Safe(s.Sample, maxRejectSample),
			})
		}
		if rest > 0 && len(rows) < maxRejectRows {
			rows = append(rows, rejectRow{Code: format.Safe(c.Code, format.MaxName), Who: "others", Count: format.Count(rest), Last: format.NewStamp(c.Last, now), Ago: format.Ago(c.Last, now)})
		}
	}
	return rows
}

// maxRejectSample is as long as a sample gets.
const maxRejectSample = 520
