package v1

import (
	"time"

	"github.com/sloengine/sloengine/slo"
)

// LedgerAnswer answers /api/v1/slos/{service}/{slo}/ledger.
type LedgerAnswer struct {
	Report Report            `json:"report"`
	ID     slo.ID            `json:"id"`
	Group  map[string]string `json:"group"`
	// Accounts are those that are charged, by precedence, with correction first and unexplained last.
	Accounts   []slo.Account `json:"accounts"`
	Deployment float64       `json:"deployment_seconds"` // how long bad events after a deployment are charged to it
	Ledger     *Ledger       `json:"ledger"`             // null: see why
	Why        string        `json:"why,omitempty"`      // there is no ledger
}

// Ledger charges the spent budget of a window to accounts. Each bad event, or slice, is in one line.
type Ledger struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Unit string    `json:"unit"` // events or slices

	// Spent is the sum of the lines but corrections. Halves are tolerated events of an apdex. Other fractions are those
	// of slices whose mean ratio counts.
	Spent    float64  `json:"spent"`
	Consumed *float64 `json:"consumed"` // share of the budget that this is; null without data
	// Since is the part of spent that was received after the report. The rest is what the report has.
	Since   float64      `json:"since_report"`
	LeftOut int          `json:"causes_left_out,omitempty"` // the oldest, beyond 2,000
	Lines   []LedgerLine `json:"lines"`                     // by precedence of accounts, then by start
}

// LedgerLine is what one cause is charged with.
type LedgerLine struct {
	Account  slo.Account `json:"account"`
	Name     string      `json:"name,omitempty"`
	Text     string      `json:"text,omitempty"`
	Same     []string    `json:"same,omitempty"` // other causes of the account at the same time
	From     time.Time   `json:"from"`           // of its first time
	To       time.Time   `json:"to"`             // of its last time
	Times    int         `json:"times"`
	Bad      float64     `json:"bad"`
	Consumed *float64    `json:"consumed"` // share of the budget; null of corrections, which are beside it
}
