# Fits linear models in R until it is ended.
#
#   Rscript fits.R DIRECTORY
#
# Prints {"event":"ready",...}, then at most twenty times per second {"event":"pace","seconds":...,"count":...,
# "sum":...}. The sum is that of the coefficients of one model and constant. Ends when DIRECTORY/end exists.
end <- file.path(commandArgs(TRUE)[1], "end")
set.seed(1)
x <- matrix(rnorm(200 * 5), 200)
y <- x %*% 1:5 + rnorm(200)
cat(sprintf("{\"event\":\"ready\",\"pid\":%d}\n", Sys.getpid()))
seconds <- function() proc.time()[["elapsed"]]
began <- reported <- seconds()
count <- 0
repeat {
  fit <- lm(y ~ x)
  count <- count + 1
  now <- seconds()
  if (now - reported < 0.05) next
  reported <- now
  sum <- round(sum(coef(fit)) * 1e6)
  cat(sprintf("{\"event\":\"pace\",\"seconds\":%.3f,\"count\":%d,\"sum\":%d}\n", now - began, count, sum))
  if (file.exists(end)) break
}
