package v1

import (
	"time"

	"github.com/sloengine/sloengine/slo"
)

// HeldAlert is an alert that would fire if there was enough evidence.
type HeldAlert struct {
	Name      string            `json:"name"`
	Severity  string            `json:"severity"`
	Tier      string            `json:"tier,omitempty"`
	Service   string            `json:"service"`
	SLO       *slo.ID           `json:"slo_id"`
	Agreement *string           `json:"agreement"`
	Group     map[string]string `json:"group"`
	Value     *float64          `json:"value"`
	Why       []Hold            `json:"why"`
}

// Hold is a reason why an alert does not fire.
type Hold struct {
	Reason   string   `json:"reason"`
	Window   string   `json:"window"`
	Have     *float64 `json:"have"`
	Want     *float64 `json:"want"`
	Observed *float64 `json:"observed"`
	Events   *float64 `json:"events"`
	Text     string   `json:"text"`
}

// Alert is one that is pending, firing, or was resolved a short time ago.
type Alert struct {
	Fingerprint string            `json:"fingerprint"`
	Name        string            `json:"name"`
	State       string            `json:"state"` // pending, firing or resolved
	Severity    string            `json:"severity"`
	Urgent      bool              `json:"urgent"`
	Service     string            `json:"service"`
	SLO         *slo.ID           `json:"slo_id"`
	Agreement   *string           `json:"agreement"`
	Group       map[string]string `json:"group"`
	Labels      map[string]string `json:"labels"`
	Value       *float64          `json:"value"`
	ActiveSince *time.Time        `json:"active_since"`
	FirstBad    *time.Time        `json:"first_bad"`
	FiredAt     *time.Time        `json:"fired_at"`
	ResolvedAt  *time.Time        `json:"resolved_at"`
	Detection   *float64          `json:"detection_seconds"` // from the first bad event to firing
	Removed     bool              `json:"removed"`
	SilencedBy  []string          `json:"silenced_by"`            // ids of silences
	InhibitedBy string            `json:"inhibited_by,omitempty"` // fingerprint of an alert
}

// AlertList answers /api/v1/alerts.
type AlertList struct {
	Report Report  `json:"report"`
	Total  int     `json:"total"`
	Items  []Alert `json:"items"`
	Next   string  `json:"next_cursor,omitempty"` // absent on the last page

	Held      []HeldAlert `json:"held"` // as many as a page has rows
	HeldTotal int         `json:"held_total"`
}
