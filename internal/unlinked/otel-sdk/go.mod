module go.opentelemetry.io/otel/sdk

go 1.26.0

require (
	go.opentelemetry.io/otel v1.46.0
	go.opentelemetry.io/otel/trace v1.46.0
)
