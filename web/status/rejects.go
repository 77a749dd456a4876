package status

import "time"

// RejectedCode is what was rejected with a code since the engine started.
type RejectedCode struct {
	Code     string           `json:"code"`
	Events   uint64           `json:"events"`   // single events
	Requests uint64           `json:"requests"` // refused as a whole
	Last     time.Time        `json:"last"`
	Senders  []RejectedSender `json:"senders"` // the latest first
	Others   uint64           `json:"others"`  // events and requests of senders that are no longer listed
}

// RejectedSender is what one sender had rejected with a code, for one service.
type RejectedSender struct {
	Token   string    `json:"token,omitempty"`
	Address string    `json:"address,omitempty"` // without a token
	Service string    `json:"service,omitempty"`
	Count   uint64    `json:"count"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Detail  string    `json:"detail"`
	Sample  string    `json:"sample,omitempty"` // an event, shortened and redacted
}
