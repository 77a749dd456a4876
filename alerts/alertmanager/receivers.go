package alertmanager

import "time"

// Class is what a route is about: how urgent an alert is, by its severity.
type Class string

// The classes. Every alert is of one of the first three, or goes to the default
// receiver.
const (
	Critical Class = "critical" // severity page or critical: at once
	Warning  Class = "warning"  // severity ticket or warning: delayed, less often
	Recovery Class = "recovery" // severity info: good news
)

// Classes lists the classes in the order in which they are routed.
var Classes = []Class{Critical, Warning, Recovery}

// Receivers say who is told, and how.
type Receivers struct {
	SMTP *SMTP // needed if any receiver has e-mail

	Receivers []Receiver

	// Default names the receiver of what no route takes; it is required.
	Default string
	// Routes name the receiver of each class; a missing one takes Default.
	Routes map[Class]string
	// Services have receivers of their own; a missing class takes that of Routes.
	Services map[string]map[Class]string
	// Timing replaces parts of the standard escalation.
	Timing map[Class]Timing
}

// Timing is when a group of alerts is told about. Zero values take the standard.
type Timing struct {
	GroupWait      *time.Duration // before the first message; 0 is at once
	GroupInterval  time.Duration  // between messages about a group that changes
	RepeatInterval time.Duration  // between messages about a group that does not
}

// Receiver is one destination with any number of channels.
type Receiver struct {
	Name      string
	Slack     []Slack
	PagerDuty []PagerDuty
	Webhook   []Webhook
	Email     []Email

	// Discard tells nobody. A receivers file can't say it; it stands in where
	// there is no such file yet.
	Discard bool
}

// Slack is an incoming webhook, whose address is a secret.
type Slack struct {
	APIURLFile string
	Channel    string
}

// PagerDuty has one of the two keys: RoutingKeyFile for the events API 2,
// ServiceKeyFile for the older one.
type PagerDuty struct {
	RoutingKeyFile, ServiceKeyFile string
	Severity                       string // default: that of the alert's class
}

// Webhook is an address that takes Alertmanager's JSON. Alertmanager 0.25 can't
// read the address from a file, so it must not hold a secret itself.
type Webhook struct {
	URL             string
	CredentialsFile string // bearer token
	Username        string // basic authentication, with PasswordFile
	PasswordFile    string
}

// Email is one recipient, or several with commas between them.
type Email struct {
	To string
}

// SMTP is the server that sends e-mail.
type SMTP struct {
	Smarthost    string // host:port
	From         string
	Username     string
	PasswordFile string
	PlainText    bool // without TLS
}
