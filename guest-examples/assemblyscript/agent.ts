// An agent that audits expense claims. It holds the claims, the model holds the judgement: through four tools the
// model reads the policy, adds up, searches, and flags what breaks a rule. The agent shows every step and writes the
// report from its own numbers, so no sum in it comes from the model.
import { Claim, claims, policy } from "./expenses";
import { ChatResponse, ChatSession, Json, print, printError, quote, SEND_AUTO_TOOL_CALL, ToolCall } from "./spear";

let steps = 0;

function plainEuros(cents: i64): string {
  return (cents / 100).toString() + "." + (cents % 100).toString().padStart(2, "0");
}

function euros(cents: i64): string {
  if (cents < 100000) return plainEuros(cents);
  return (cents / 100000).toString() + "," + plainEuros(cents % 100000).padStart(6, "0");
}

function showStep(tool: string, args: string, outcome: string): void {
  steps++;
  print(steps.toString().padStart(4) + "  " + tool.padEnd(12) + " " + args.padEnd(42) + " " + outcome);
}

/** A tool's answer when it cannot do what was asked: the model reads it and tries something else. */
function refuse(call: ToolCall, tool: string, why: string): i32 {
  showStep(tool, call.source, why);
  return call.reply('{"error":' + quote(why) + "}");
}

function readPolicy(args_ptr: usize, args_len: u32, out_ptr: usize, out_len_ptr: usize): i32 {
  const call = new ToolCall(args_ptr, args_len, out_ptr, out_len_ptr);
  const rules = policy.map<string>((rule) => '{"rule":' + quote(rule.name) + ',"text":' + quote(rule.text) + "}");
  showStep("read_policy", call.source, policy.length.toString() + " rules");
  return call.reply('{"rules":[' + rules.join(",") + "]}");
}

class Group {
  cents: i64 = 0;
  claims: i32 = 0;
  constructor(readonly name: string) {}
}

function groupBy(field: string): Group[] {
  const groups: Group[] = [];
  for (let i = 0; i < claims.length; i++) {
    const name = claims[i].column(field);
    if (name == "") return [];
    let g = 0;
    while (g < groups.length && groups[g].name != name) g++;
    if (g == groups.length) groups.push(new Group(name));
    groups[g].cents += claims[i].cents;
    groups[g].claims++;
    for (; g > 0 && groups[g].cents > groups[g - 1].cents; g--) {
      const larger = groups[g];
      groups[g] = groups[g - 1];
      groups[g - 1] = larger;
    }
  }
  return groups;
}

function totalBy(args_ptr: usize, args_len: u32, out_ptr: usize, out_len_ptr: usize): i32 {
  const call = new ToolCall(args_ptr, args_len, out_ptr, out_len_ptr);
  const groups = groupBy(call.args.text("field"));
  if (groups.length < 2) return refuse(call, "total_by", "field: employee, category or merchant");

  const rows = groups.map<string>(
    (group) => '{"name":' + quote(group.name) + ',"claims":' + group.claims.toString() + ',"eur":' + plainEuros(group.cents) + "}",
  );
  const leaders = groups.slice(0, 2).map<string>((group) => group.name + " " + euros(group.cents));
  showStep("total_by", call.source, groups.length.toString() + " groups: " + leaders.join(", ") + " ...");
  return call.reply('{"groups":[' + rows.join(",") + "]}");
}

/** A claim matches when it has every column that the arguments name. */
function matches(claim: Claim, args: Json): bool {
  const fields = ["employee", "category", "merchant"];
  for (let i = 0; i < fields.length; i++) {
    if (args.at(fields[i]).isText && args.text(fields[i]) != claim.column(fields[i])) return false;
  }
  if (args.isTrue("no_receipt") && claim.receipt) return false;
  return claim.cents > <i64>args.number("over_eur", -1) * 100;
}

function findClaims(args_ptr: usize, args_len: u32, out_ptr: usize, out_len_ptr: usize): i32 {
  const call = new ToolCall(args_ptr, args_len, out_ptr, out_len_ptr);
  let cents: i64 = 0;
  const rows: string[] = [];
  for (let i = 0; i < claims.length; i++) {
    const claim = claims[i];
    if (!matches(claim, call.args)) continue;
    cents += claim.cents;
    rows.push(
      '{"id":"' + claim.id + '","date":"' + claim.date + '","employee":"' + claim.employee + '","category":"' + claim.category +
        '","merchant":' + quote(claim.merchant) + ',"eur":' + plainEuros(claim.cents) + ',"receipt":' + claim.receipt.toString() + "}",
    );
  }
  showStep("find_claims", call.source, rows.length.toString() + (rows.length == 1 ? " claim, " : " claims, ") + euros(cents) + " EUR");
  return call.reply('{"claims":[' + rows.join(",") + "]}");
}

function flagClaim(args_ptr: usize, args_len: u32, out_ptr: usize, out_len_ptr: usize): i32 {
  const call = new ToolCall(args_ptr, args_len, out_ptr, out_len_ptr);
  const id = call.args.text("id");
  const rule = call.args.text("rule");
  let r = 0;
  let i = 0;
  while (r < policy.length && policy[r].name != rule) r++;
  while (i < claims.length && claims[i].id != id) i++;
  if (r == policy.length) return refuse(call, "flag_claim", "no such rule");
  if (i == claims.length) return refuse(call, "flag_claim", "no such claim");

  const claim = claims[i];
  claim.rule = rule;
  showStep("flag_claim", call.source, claim.employee + ", " + claim.merchant + ", " + euros(claim.cents) + " EUR");
  return call.reply('{"flagged":' + quote(id) + "}");
}

function printWrapped(text: string, width: i32): void {
  const lines = text.split("\n");
  for (let i = 0; i < lines.length; i++) {
    let line = lines[i];
    while (line.length > width) {
      let cut = line.lastIndexOf(" ", width);
      if (cut <= 0) cut = line.indexOf(" ");
      if (cut < 0) break;
      print("  " + line.substring(0, cut));
      line = line.substring(cut + 1);
    }
    print("  " + line);
  }
}

function printReport(): void {
  let flagged: i64 = 0;
  let total: i64 = 0;
  let count = 0;
  print("\n  claim  date        employee  merchant       rule         " + "EUR".padStart(10));
  print("  -----  ----------  --------  -------------  -----------  ----------");
  for (let i = 0; i < claims.length; i++) {
    const claim = claims[i];
    total += claim.cents;
    if (claim.rule == "") continue;
    flagged += claim.cents;
    count++;
    const cells = [claim.id.padEnd(5), claim.date, claim.employee.padEnd(8), claim.merchant.padEnd(13), claim.rule.padEnd(11)];
    print("  " + cells.join("  ") + "  " + euros(claim.cents).padStart(10));
  }
  const percent = total == 0 ? 0 : (flagged * 100 + total / 2) / total;
  print(
    "  " + count.toString() + " of " + claims.length.toString() + " claims flagged, " + euros(flagged) + " of " + euros(total) +
      " EUR (" + percent.toString() + " %)\n",
  );
}

function define(name: string, description: string, properties: string, required: string): string {
  return (
    '{"name":' + quote(name) + ',"description":' + quote(description) +
    ',"parameters":{"type":"object","properties":{' + properties + '},"required":[' + required + "]}}"
  );
}

function text(name: string): string {
  return quote(name) + ':{"type":"string"}';
}

function askForAudit(): ChatResponse {
  const session = new ChatSession();
  session.param("max_iterations", "32");
  session.tool(readPolicy, define("read_policy", "The rules that claims must keep.", "", ""));
  session.tool(totalBy, define("total_by", "Sums of all claims by employee, category or merchant.", text("field"), '"field"'));
  const filters = [text("employee"), text("category"), text("merchant"), '"over_eur":{"type":"integer"}', '"no_receipt":{"type":"boolean"}'];
  session.tool(findClaims, define("find_claims", "Claims that match everything given.", filters.join(","), ""));
  session.tool(
    flagClaim,
    define("flag_claim", "Marks a claim that breaks a rule of the policy.", text("id") + "," + text("rule"), '"id","rule"'),
  );
  session.say(
    "system",
    "You audit expense claims. Read the policy, look at the totals, search for claims that may break a rule, " +
      "and flag each one that does, once. End with a note of at most three sentences.",
  );
  session.say("user", "Audit the claims of July 2026.");
  return session.send(SEND_AUTO_TOOL_CALL);
}

export function run(): i32 {
  print("Expense audit, July 2026: " + claims.length.toString() + " claims\n");

  const response = askForAudit();
  const note = response.answer();
  if (response.failed) {
    printError("the audit did not finish: " + note);
    return 1;
  }
  printReport();
  printWrapped(note, 76);
  return 0;
}
