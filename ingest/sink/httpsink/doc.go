// Package httpsink posts events to a web service, a batch per request: as a JSON array
// or as newline-delimited JSON, optionally compressed and signed.
//
// A receiver may answer for every event: an answer of the form that the engine itself
// gives ({"errors":[{"index":17,"code":"..","detail":"..","retryable":true}]}) marks
// single events of the batch as failed, so that the others are not sent again.
//
// # Signature
//
// With a secret, every request carries
//
//	X-Sloengine-Signature: t=1795165199,v1=<hex>
//
// where v1 is HMAC-SHA256 with the secret over the decimal t, a dot, and the body as it
// is on the wire (after compression). A receiver recomputes it, compares in constant
// time, and refuses a t that is too old. [remote.Verify] does that.
//
// It does not retry, batch or limit by itself: reliability/dispatch does.
package httpsink
