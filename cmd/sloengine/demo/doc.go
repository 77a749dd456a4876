// Package demo is a traffic model: the insurance process of
// testdata/specs/insurance.yaml with three products, fifteen stages, two
// channels, four integrations, day and night, and two incidents.
//
// It makes events and nothing else. It does not know how they are sent, stored
// or counted, never reads the clock, and gives the same events for the same seed
// and times.
package demo
