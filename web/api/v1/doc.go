// Package v1 is the types of the read API under /api/v1, for programs that ask an engine. The engine answers with them
// and its own commands read them. The OpenAPI document of the engine describes the fields.
//
// The names of fields are a contract: types may grow, and no field changes its name or meaning. Ratios are from 0 to 1,
// scores from 0 to 100, and times are RFC 3339 in UTC. Values without data are null. States are text, and there may be
// more of them than a program knows.
package v1
