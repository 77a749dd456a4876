// Package subscription sends documents that change to webhooks of outsiders who subscribed: it confirms an address by a
// challenge, signs each request, retries, and removes webhooks that fail for days. Outsiders use up nothing without a
// bound, and requests go to public addresses only. It does not know the content of the documents.
package subscription
