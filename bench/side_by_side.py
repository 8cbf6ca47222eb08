"""What the comparisons share: rounds that count only on a quiet machine, and the medians of their ratios."""
import statistics


class QuietRounds:
    """Rounds that stand between two probes of the machine ({name: rate} each). One in which a probe is below
    `quiet` of the best ever seen does not count, also when the best comes later."""

    def __init__(self, quiet):
        self.quiet, self.best, self.rounds = quiet, {}, []

    def add(self, before, after, result):
        for probe in (before, after):
            for key in ("read_gbs", "int8_gops"):
                self.best[key] = max(self.best.get(key, 0.0), probe[key])
        self.rounds.append(((before, after), result))

    def kept(self):
        """The results that count."""
        return [result for probes, result in self.rounds
                if all(probe[key] >= self.quiet * best for probe in probes for key, best in self.best.items())]


def ratios(pairs):
    """Medians of (ours, theirs), and of the ratio with its range."""
    each = [ours / theirs for ours, theirs in pairs]
    return {"ours": statistics.median(ours for ours, _ in pairs),
            "peer": statistics.median(theirs for _, theirs in pairs),
            "ratio": statistics.median(each), "ratio_min": min(each), "ratio_max": max(each)}


def describe(what, row, peer="peer"):
    return (f"{what:<16} ours {row['ours']:9.1f}  {peer} {row['peer']:9.1f}  ratio {row['ratio']:.2f} "
            f"({row['ratio_min']:.2f} to {row['ratio_max']:.2f})")
