// Package api serves the read API as its OpenAPI document describes it, the reports of past periods as JSON and CSV,
// and the requests to forget and to rebuild counts.
//
// The field names of answers are a contract: they may grow, never change. The package computes nothing: it writes down
// what a report says. Schemas are derived from the types of answers; openapi.json describes a new field under the name
// of its type.
package api
