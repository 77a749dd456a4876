// Package otlpwire decodes OTLP requests, protobuf and JSON, without building the messages in memory: each span, log
// record or metric point is handed to a function, and its texts refer to the request. It knows neither events nor HTTP.
//
// A request that is not well-formed is refused as a whole, with the path and byte of the first mistake, and exactly
// when the official decoder would refuse it. Two things are taken that the official one refuses, because one sender's
// odd value would otherwise cost the spans of all others in a Collector's batch: a text with invalid UTF-8 is repaired,
// and what exceeds a bound of Limits is cut. Losses counts both.
//
// Items are handed out while the rest of the request is still unread, so a caller keeps nothing of a request before the
// decoder has returned nil.
package otlpwire
