/*
 * An agent that audits expense claims. It holds the claims, the model holds the judgement: through four tools the
 * model reads the policy, adds up, searches, and flags what breaks a rule. The agent shows every step and writes the
 * report from its own numbers, so no sum in it comes from the model.
 */
#include "expenses.h"
#include "spear.h"

#define TEXT 160

static int steps;

static const char *euros(long cents, char out[32]) {
  long whole = cents / 100;
  if (whole >= 1000) snprintf(out, 32, "%ld,%03ld.%02ld", whole / 1000, whole % 1000, cents % 100);
  else snprintf(out, 32, "%ld.%02ld", whole, cents % 100);
  return out;
}

static void show_step(const char *tool, const char *args, const char *outcome) {
  printf("%4d  %-12s %-42s %s\n", ++steps, tool, args, outcome);
}

/* A tool's answer when it cannot do what was asked: the model reads it and tries something else. */
static int32_t refuse(const char *tool, const char *args, const char *why, char *out, uint32_t *out_len) {
  show_step(tool, args, why);
  spear_writer w = spear_write_to(out, *out_len);
  spear_put(&w, "{\"error\":");
  spear_put_json(&w, why);
  spear_put(&w, "}");
  return spear_finish(&w, out_len);
}

static int32_t read_policy(const char *args, uint32_t args_len, char *out, uint32_t *out_len) {
  (void)args_len;
  char outcome[TEXT];
  spear_writer w = spear_write_to(out, *out_len);
  for (int i = 0; i < RULES; i++) {
    spear_put(&w, i ? ",{\"rule\":" : "{\"rules\":[{\"rule\":");
    spear_put_json(&w, policy[i].name);
    spear_put(&w, ",\"text\":");
    spear_put_json(&w, policy[i].text);
    spear_put(&w, "}");
  }
  spear_put(&w, "]}");
  snprintf(outcome, sizeof outcome, "%d rules", RULES);
  show_step("read_policy", args, outcome);
  return spear_finish(&w, out_len);
}

typedef struct {
  const char *name;
  long cents;
  int claims;
} group;

static int group_by(const char *field, group groups[MAX_CLAIMS]) {
  int count = 0;
  for (int i = 0; i < claim_count; i++) {
    const char *name = column(&claims[i], field);
    if (!name) return 0;
    int g = 0;
    while (g < count && strcmp(groups[g].name, name) != 0) g++;
    if (g == count) groups[count++] = (group){name, 0, 0};
    groups[g].cents += claims[i].cents;
    groups[g].claims++;
    for (; g > 0 && groups[g].cents > groups[g - 1].cents; g--) {
      group larger = groups[g];
      groups[g] = groups[g - 1];
      groups[g - 1] = larger;
    }
  }
  return count;
}

static int32_t total_by(const char *args, uint32_t args_len, char *out, uint32_t *out_len) {
  (void)args_len;
  char field[32], sum[32], next[32], outcome[TEXT];
  group groups[MAX_CLAIMS];
  spear_json_text(args, "field", field, sizeof field);
  int count = group_by(field, groups);
  if (count < 2) return refuse("total_by", args, "field: employee, category or merchant", out, out_len);

  spear_writer w = spear_write_to(out, *out_len);
  for (int i = 0; i < count; i++) {
    spear_put(&w, i ? ",{\"name\":" : "{\"groups\":[{\"name\":");
    spear_put_json(&w, groups[i].name);
    spear_putf(&w, ",\"claims\":%d,\"eur\":%ld.%02ld}", groups[i].claims, groups[i].cents / 100, groups[i].cents % 100);
  }
  spear_put(&w, "]}");
  snprintf(outcome, sizeof outcome, "%d groups: %s %s, %s %s ...", count, groups[0].name, euros(groups[0].cents, sum),
           groups[1].name, euros(groups[1].cents, next));
  show_step("total_by", args, outcome);
  return spear_finish(&w, out_len);
}

/* A claim matches when it has every column that the arguments name. */
static int matches(const claim *c, const char *args) {
  static const char *fields[] = {"employee", "category", "merchant"};
  for (int i = 0; i < 3; i++) {
    char wanted[64];
    if (spear_json_text(args, fields[i], wanted, sizeof wanted) >= 0 && strcmp(column(c, fields[i]), wanted) != 0) return 0;
  }
  if (spear_json_true(args, "no_receipt") && c->receipt) return 0;
  return c->cents > spear_json_int(args, "over_eur", -1) * 100;
}

static int32_t find_claims(const char *args, uint32_t args_len, char *out, uint32_t *out_len) {
  (void)args_len;
  char sum[32], outcome[TEXT];
  long cents = 0;
  int count = 0;
  spear_writer w = spear_write_to(out, *out_len);
  spear_put(&w, "{\"claims\":[");
  for (int i = 0; i < claim_count; i++) {
    const claim *c = &claims[i];
    if (!matches(c, args)) continue;
    cents += c->cents;
    spear_putf(&w, "%s{\"id\":\"%s\",\"date\":\"%s\",\"employee\":\"%s\",\"category\":\"%s\",\"merchant\":", count++ ? "," : "",
               c->id, c->date, c->employee, c->category);
    spear_put_json(&w, c->merchant);
    spear_putf(&w, ",\"eur\":%ld.%02ld,\"receipt\":%s}", c->cents / 100, c->cents % 100, c->receipt ? "true" : "false");
  }
  spear_put(&w, "]}");
  snprintf(outcome, sizeof outcome, "%d claim%s, %s EUR", count, count == 1 ? "" : "s", euros(cents, sum));
  show_step("find_claims", args, outcome);
  return spear_finish(&w, out_len);
}

static int32_t flag_claim(const char *args, uint32_t args_len, char *out, uint32_t *out_len) {
  (void)args_len;
  char id[16], rule[32], sum[32], outcome[TEXT];
  spear_json_text(args, "id", id, sizeof id);
  spear_json_text(args, "rule", rule, sizeof rule);
  int r = 0, i = 0;
  while (r < RULES && strcmp(policy[r].name, rule) != 0) r++;
  while (i < claim_count && strcmp(claims[i].id, id) != 0) i++;
  if (r == RULES) return refuse("flag_claim", args, "no such rule", out, out_len);
  if (i == claim_count) return refuse("flag_claim", args, "no such claim", out, out_len);

  claims[i].rule = r;
  snprintf(outcome, sizeof outcome, "%s, %s, %s EUR", claims[i].employee, claims[i].merchant, euros(claims[i].cents, sum));
  show_step("flag_claim", args, outcome);
  spear_writer w = spear_write_to(out, *out_len);
  spear_put(&w, "{\"flagged\":");
  spear_put_json(&w, id);
  spear_put(&w, "}");
  return spear_finish(&w, out_len);
}

static void print_wrapped(const char *text, int width) {
  while (*text) {
    int length = (int)strcspn(text, "\n");
    if (length > width) {
      for (length = width; length > 0 && text[length] != ' ';) length--;
      if (length == 0) length = (int)strcspn(text, " \n");
    }
    printf("  %.*s\n", length, text);
    text += length;
    if (*text) text++;
  }
}

static void print_report(void) {
  char sum[32], all[32];
  long flagged = 0, total = 0;
  int count = 0;
  printf("\n  claim  date        employee  merchant       rule         %10s\n", "EUR");
  printf("  -----  ----------  --------  -------------  -----------  ----------\n");
  for (int i = 0; i < claim_count; i++) {
    const claim *c = &claims[i];
    total += c->cents;
    if (c->rule < 0) continue;
    flagged += c->cents;
    count++;
    printf("  %-5s  %-10s  %-8s  %-13s  %-11s  %10s\n", c->id, c->date, c->employee, c->merchant, policy[c->rule].name,
           euros(c->cents, sum));
  }
  printf("  %d of %d claims flagged, %s of %s EUR (%ld %%)\n\n", count, claim_count, euros(flagged, sum), euros(total, all),
         total ? (flagged * 100 + total / 2) / total : 0);
}

#define OBJECT(properties) "\"parameters\":{\"type\":\"object\",\"properties\":{" properties "}"
#define STRING(name) "\"" name "\":{\"type\":\"string\"}"

static int32_t ask_for_audit(void) {
  int32_t session = cchat_create();
  SPEAR_TOOL_ARENA(session, 64 * 1024);
  spear_set_param(session, "max_iterations", "32");
  spear_tool(session, read_policy, "{\"name\":\"read_policy\",\"description\":\"The rules that claims must keep.\"," OBJECT("") "}}");
  spear_tool(session, total_by,
             "{\"name\":\"total_by\",\"description\":\"Sums of all claims by employee, category or merchant.\"," OBJECT(
                 STRING("field")) ",\"required\":[\"field\"]}}");
  spear_tool(session, find_claims,
             "{\"name\":\"find_claims\",\"description\":\"Claims that match everything given.\"," OBJECT(
                 STRING("employee") "," STRING("category") "," STRING(
                     "merchant") ",\"over_eur\":{\"type\":\"integer\"},\"no_receipt\":{\"type\":\"boolean\"}") "}}");
  spear_tool(session, flag_claim,
             "{\"name\":\"flag_claim\",\"description\":\"Marks a claim that breaks a rule of the policy.\"," OBJECT(
                 STRING("id") "," STRING("rule")) ",\"required\":[\"id\",\"rule\"]}}");
  spear_chat_say(session, "system",
                 "You audit expense claims. Read the policy, look at the totals, search for claims that may break a rule, "
                 "and flag each one that does, once. End with a note of at most three sentences.");
  spear_chat_say(session, "user", "Audit the claims of July 2026.");
  return cchat_send(session, SPEAR_SEND_AUTO_TOOL_CALL);
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  load_claims();
  printf("Expense audit, July 2026: %d claims\n\n", claim_count);

  int failed;
  char *note = spear_answer(ask_for_audit(), &failed);
  if (failed) {
    fprintf(stderr, "the audit did not finish: %s\n", note);
    return 1;
  }
  print_report();
  print_wrapped(note, 76);
  return 0;
}
