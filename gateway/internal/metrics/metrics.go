// Package metrics counts events for operators. Lock names are no labels: their
// number has no bound.
package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Set is all metrics of a gateway.
type Set struct {
	registry *prometheus.Registry

	requests   *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	inFlight   prometheus.Gauge
	overloaded prometheus.Counter
	waiters    prometheus.Gauge
	statements *prometheus.HistogramVec
	contention *prometheus.CounterVec
	unknown    *prometheus.CounterVec
	skew       prometheus.Counter
}

// New makes the metrics; held counts the terms that are alive.
func New(held func() int) *Set {
	buckets := []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5}
	s := &Set{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "le_gateway_http_requests_total",
			Help: "HTTP requests by operation and status code."}, []string{"op", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "le_gateway_http_request_seconds",
			Help: "Time to answer a request, waiting ones left out.", Buckets: buckets}, []string{"op"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "le_gateway_http_requests_in_flight",
			Help: "Requests being worked on, waiting ones left out."}),
		overloaded: prometheus.NewCounter(prometheus.CounterOpts{Name: "le_gateway_http_overloaded_total",
			Help: "Requests refused because too many were under way."}),
		waiters: prometheus.NewGauge(prometheus.GaugeOpts{Name: "le_gateway_waiters",
			Help: "Long polls under way."}),
		statements: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "le_gateway_cassandra_statement_seconds",
			Help:    "Time of a statement by kind (acquire, renew, release, burn, claim and complete are lightweight transactions) and outcome.",
			Buckets: buckets}, []string{"kind", "outcome"}),
		contention: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "le_gateway_contention_total",
			Help: "Transactions refused because the lock had changed since it was read."}, []string{"op"}),
		unknown: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "le_gateway_unknown_outcomes_total",
			Help: "Transactions without an answer, by what they turned out to be: applied, not-applied, burned or unresolved."},
			[]string{"op", "resolved"}),
		skew: prometheus.NewCounter(prometheus.CounterOpts{Name: "le_gateway_clock_skew_exceeded_total",
			Help: "Leases read back shorter than max-clock-skew allows."}),
	}
	heldGauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "le_gateway_held_locks",
		Help: "Terms that this gateway granted or renewed last and that have not run out since."},
		func() float64 { return float64(held()) })
	s.registry.MustRegister(s.requests, s.duration, s.inFlight, s.overloaded, s.waiters, s.statements,
		s.contention, s.unknown, s.skew, heldGauge,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return s
}

// Handler serves the metrics.
func (s *Set) Handler() http.Handler {
	return promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{})
}

// Request counts an answered request.
func (s *Set) Request(op string, code int, took time.Duration, waited bool) {
	s.requests.WithLabelValues(op, strconv.Itoa(code)).Inc()
	if !waited {
		s.duration.WithLabelValues(op).Observe(took.Seconds())
	}
}

// InFlight counts requests being worked on.
func (s *Set) InFlight(delta int) { s.inFlight.Add(float64(delta)) }

// Overloaded counts a request that was turned away.
func (s *Set) Overloaded() { s.overloaded.Inc() }

// Statement observes a statement of the store.
func (s *Set) Statement(kind, outcome string, took time.Duration) {
	s.statements.WithLabelValues(kind, outcome).Observe(took.Seconds())
}

// Contention counts a transaction that lost against another.
func (s *Set) Contention(op string) { s.contention.WithLabelValues(op).Inc() }

// Unknown counts a missing answer and its resolution.
func (s *Set) Unknown(op, resolved string) { s.unknown.WithLabelValues(op, resolved).Inc() }

// ClockSkew counts a lease that shows clocks too far apart.
func (s *Set) ClockSkew() { s.skew.Inc() }

// Waiters counts long polls.
func (s *Set) Waiters(delta int) { s.waiters.Add(float64(delta)) }
