/* The data that the audit agent holds: the model only sees what the agent's tools answer. */
#ifndef EXPENSES_H
#define EXPENSES_H

#include <stdlib.h>
#include <string.h>

static const char expenses_csv[] =
    "E01,2026-07-01,Adler,travel,Rail Europe,18900,yes\n"
    "E02,2026-07-01,Adler,lodging,Hotel Aurora,16500,yes\n"
    "E03,2026-07-02,Adler,meals,Trattoria Lido,4280,yes\n"
    "E04,2026-07-03,Brandt,travel,Rail Europe,21400,yes\n"
    "E05,2026-07-03,Brandt,meals,Bistro Nord,5890,yes\n"
    "E06,2026-07-06,Costa,equipment,Nordlicht IT,48900,yes\n"
    "E07,2026-07-06,Costa,equipment,Nordlicht IT,47500,yes\n"
    "E08,2026-07-07,Dumont,meals,Chez Mathilde,23840,yes\n"
    "E09,2026-07-08,Brandt,lodging,Hotel Aurora,16500,yes\n"
    "E10,2026-07-09,Dumont,travel,City Taxi,3450,no\n"
    "E11,2026-07-10,Adler,software,Cloud Ledger,12900,yes\n"
    "E12,2026-07-13,Brandt,software,Cloud Ledger,12900,yes\n"
    "E13,2026-07-14,Costa,meals,Sushi Hana,5650,yes\n"
    "E14,2026-07-16,Dumont,lodging,Grand Palace,31200,yes\n"
    "E15,2026-07-17,Costa,travel,Fly Iberia,38700,yes\n"
    "E16,2026-07-17,Costa,travel,Fly Iberia,38700,yes\n"
    "E17,2026-07-20,Adler,meals,Cafe Central,1240,no\n"
    "E18,2026-07-22,Dumont,travel,Rail Europe,9800,yes\n";

static const struct {
  const char *name, *text;
} policy[] = {
    {"meal-limit", "A meal is refunded up to 60.00 EUR."},
    {"hotel-limit", "A night in a hotel is refunded up to 180.00 EUR."},
    {"receipt", "Above 25.00 EUR a receipt is needed."},
    {"split", "Above 500.00 EUR a purchase needs approval; splitting one to stay below is not allowed."},
    {"duplicate", "The same cost is refunded once."},
};

#define RULES (int)(sizeof policy / sizeof *policy)
#define MAX_CLAIMS 64

typedef struct {
  char *id, *date, *employee, *category, *merchant;
  long cents;
  int receipt;
  int rule; /* index of the rule it was flagged for, or -1 */
} claim;

static claim claims[MAX_CLAIMS];
static int claim_count;

static void load_claims(void) {
  char *rest = strdup(expenses_csv);
  for (char *line; (line = strsep(&rest, "\n")) && *line && claim_count < MAX_CLAIMS;) {
    claim *c = &claims[claim_count++];
    c->id = strsep(&line, ",");
    c->date = strsep(&line, ",");
    c->employee = strsep(&line, ",");
    c->category = strsep(&line, ",");
    c->merchant = strsep(&line, ",");
    c->cents = atol(strsep(&line, ","));
    c->receipt = strcmp(line, "yes") == 0;
    c->rule = -1;
  }
}

/* The text of a column, for the tools that take its name; NULL if there is no such column. */
static const char *column(const claim *c, const char *name) {
  if (strcmp(name, "employee") == 0) return c->employee;
  if (strcmp(name, "category") == 0) return c->category;
  if (strcmp(name, "merchant") == 0) return c->merchant;
  return NULL;
}

#endif
