package alertmanager

import (
	"time"

	"github.com/sloengine/sloengine/slo/yamldoc"
)

// Class is what a route is about: how urgent an alert is, by its severity.
type Class string

// The classes. Every alert is of one of the first three, or goes to the default
// receiver.
const (
	Critical Class = "critical" // severity page: now
	Warning  Class = "warning"  // severity ticket: delayed, less often
	Recovery Class = "recovery" // severity info: good news
)

// Classes lists the classes in the order in which they are routed.
var Classes = []Class{Critical, Warning, Recovery}

// Receivers say who is notified, and how.
type Receivers struct {
	SMTP *SMTP `yaml:"smtp"` // needed if any receiver has e-mail

	Receivers []Receiver `yaml:"receivers"`

	// Default names the receiver of what no route takes; it is required.
	Default string `yaml:"default"`
	// Routes name the receiver of each class; a missing one takes Default.
	Routes map[Class]string `yaml:"routes"`
	// Services have receivers of their own; a missing class takes that of Routes.
	Services map[string]map[Class]string `yaml:"services"`
	// Watchdog names the receiver of the alert that always fires, such as a dead man's switch. It should get
	// nothing else. Without it that alert notifies no receiver.
	Watchdog string `yaml:"watchdog"`
	// Timing replaces parts of the standard escalation.
	Timing map[Class]Timing `yaml:"timing"`
}

// Timing is when a group of alerts is notified. Zero values take the standard.
type Timing struct {
	GroupWait      *time.Duration `yaml:"group_wait"`      // before the first message; 0 is at once
	GroupInterval  time.Duration  `yaml:"group_interval"`  // between messages about a group that changes
	RepeatInterval time.Duration  `yaml:"repeat_interval"` // between messages about a group that does not
}

// Receiver is one destination with any number of channels.
type Receiver struct {
	Name      string                       `yaml:"name"`
	Slack     yamldoc.OneOrList[Slack]     `yaml:"slack"`
	PagerDuty yamldoc.OneOrList[PagerDuty] `yaml:"pagerduty"`
	Webhook   yamldoc.OneOrList[Webhook]   `yaml:"webhook"`
	Email     yamldoc.OneOrList[Email]     `yaml:"email"`

	// Discard notifies no one. A receivers file cannot express it; it stands in where there is no such file yet.
	Discard bool
}

// Slack is an incoming webhook, whose address is a secret.
type Slack struct {
	APIURLFile string `yaml:"api_url_file"`
	Channel    string `yaml:"channel"`
}

// PagerDuty has one of the two keys: RoutingKeyFile for the events API 2,
// ServiceKeyFile for the older one.
type PagerDuty struct {
	RoutingKeyFile string `yaml:"routing_key_file"`
	ServiceKeyFile string `yaml:"service_key_file"`
	Severity       string `yaml:"severity"` // default: that of the alert's class
}

// Webhook is an address that takes Alertmanager's JSON. Alertmanager 0.25 can't
// read the address from a file, so it must not hold a secret itself.
type Webhook struct {
	URL             string `yaml:"url"`
	CredentialsFile string `yaml:"credentials_file"` // bearer token
	Username        string `yaml:"username"`         // basic authentication, with PasswordFile
	PasswordFile    string `yaml:"password_file"`
}

// Email is one recipient, or several with commas between them.
type Email struct {
	To string `yaml:"to"`
}

// SMTP is the server that sends e-mail.
type SMTP struct {
	Smarthost    string `yaml:"smarthost"` // host:port
	From         string `yaml:"from"`
	Username     string `yaml:"username"`
	PasswordFile string `yaml:"password_file"`
	TLS          *bool  `yaml:"tls"` // nil is true
}
