//! An agent that audits expense claims. It holds the claims, the model holds the judgement: through four tools the
//! model reads the policy, adds up, searches, and flags what breaks a rule. The agent shows every step and writes the
//! report from its own numbers, so no sum in it comes from the model.

mod expenses;

use expenses::{Claim, POLICY, load_claims};
use spear_guest::{Chat, Errno, Error, Json, Tool, ToolCall, ToolError, info, object};
use std::cell::{Cell, RefCell};

spear_guest::main!(run);

const INSTRUCTIONS: &str = "You audit expense claims. Read the policy, look at the totals, search for claims that may \
    break a rule, and flag each one that does, once. End with a note of at most three sentences.";

/// A tool's answer to the model, and the one line about it for people.
type Step = Result<(Json, String), ToolError>;

fn run() -> Result<(), Error> {
    let claims = RefCell::new(load_claims());
    info!("Expense audit, July 2026: {} claims", claims.borrow().len());
    info!("");
    let steps = Cell::new(0);
    let mut chat = Chat::new()?;
    chat.set("max_iterations", 32)?;
    add_tools(&mut chat, &claims, &steps)?;
    chat.system(INSTRUCTIONS)?;
    let note = chat.ask("Audit the claims of July 2026.")?;
    show_report(&claims.borrow());
    show_wrapped(&note, 76);
    Ok(())
}

fn add_tools<'t>(chat: &mut Chat<'t>, claims: &'t RefCell<Vec<Claim>>, steps: &'t Cell<u32>) -> Result<(), Errno> {
    let shown = move |run: fn(&ToolCall, &mut [Claim]) -> Step| {
        move |call: &ToolCall| {
            let done = run(call, &mut claims.borrow_mut());
            let outcome = done.as_ref().map_or_else(ToolError::message, |(_, outcome)| outcome);
            steps.set(steps.get() + 1);
            info!("{:4}  {:12} {:42} {outcome}", steps.get(), call.name(), call.arguments());
            done.map(|(answer, _)| answer)
        }
    };
    chat.tool(Tool::new("read_policy", "The rules that claims must keep."), shown(read_policy))?;
    let total = Tool::new("total_by", "Sums of all claims by employee, category or merchant.").text("field", "");
    chat.tool(total, shown(total_by))?;
    let mut find = Tool::new("find_claims", "Claims that match everything given.");
    for column in ["employee", "category", "merchant"] {
        find = find.text(column, "").optional();
    }
    find = find.integer("over_eur", "").optional().boolean("no_receipt", "").optional();
    chat.tool(find, shown(find_claims))?;
    let flag =
        Tool::new("flag_claim", "Marks a claim that breaks a rule of the policy.").text("id", "").text("rule", "");
    chat.tool(flag, shown(flag_claim))
}

fn read_policy(_: &ToolCall, _: &mut [Claim]) -> Step {
    let rules: Json = POLICY.iter().map(|&(rule, text)| object! { "rule": rule, "text": text }).collect();
    Ok((object! { "rules": rules }, format!("{} rules", POLICY.len())))
}

fn total_by(call: &ToolCall, claims: &mut [Claim]) -> Step {
    let field = call.text("field")?;
    let mut groups: Vec<(&str, i64, usize)> = Vec::new();
    for claim in claims.iter() {
        let name = claim.column(field).ok_or("field: employee, category or merchant")?;
        match groups.iter_mut().find(|(known, ..)| *known == name) {
            Some((_, cents, count)) => (*cents, *count) = (*cents + claim.cents, *count + 1),
            None => groups.push((name, claim.cents, 1)),
        }
    }
    groups.sort_by_key(|&(_, cents, _)| -cents);
    let rows: Json = groups
        .iter()
        .map(|&(name, cents, count)| object! { "name": name, "claims": count, "eur": eur(cents) })
        .collect();
    let largest: Vec<String> =
        groups.iter().take(2).map(|&(name, cents, _)| format!("{name} {}", euros(cents))).collect();
    Ok((object! { "groups": rows }, format!("{} groups: {} ...", groups.len(), largest.join(", "))))
}

/// A claim matches when it has every column that the arguments name.
fn matches(claim: &Claim, args: &Json) -> bool {
    let named = ["employee", "category", "merchant"];
    named.iter().all(|name| args[*name].as_str().is_none_or(|wanted| claim.column(name) == Some(wanted)))
        && !(args["no_receipt"].as_bool() == Some(true) && claim.receipt)
        && claim.cents > args["over_eur"].as_i64().unwrap_or(-1) * 100
}

fn find_claims(call: &ToolCall, claims: &mut [Claim]) -> Step {
    let found: Vec<&Claim> = claims.iter().filter(|claim| matches(claim, call.json())).collect();
    let rows: Json = found
        .iter()
        .map(|claim| {
            object! {
                "id": claim.id, "date": claim.date, "employee": claim.employee, "category": claim.category,
                "merchant": claim.merchant, "eur": eur(claim.cents), "receipt": claim.receipt,
            }
        })
        .collect();
    let sum = euros(found.iter().map(|claim| claim.cents).sum());
    let plural = if found.len() == 1 { "" } else { "s" };
    Ok((object! { "claims": rows }, format!("{} claim{plural}, {sum} EUR", found.len())))
}

fn flag_claim(call: &ToolCall, claims: &mut [Claim]) -> Step {
    let (id, rule) = (call.text("id")?, call.text("rule")?);
    let &(rule, _) = POLICY.iter().find(|(name, _)| *name == rule).ok_or("no such rule")?;
    let claim = claims.iter_mut().find(|claim| claim.id == id).ok_or("no such claim")?;
    claim.rule = Some(rule);
    let outcome = format!("{}, {}, {} EUR", claim.employee, claim.merchant, euros(claim.cents));
    Ok((object! { "flagged": id }, outcome))
}

fn show_report(claims: &[Claim]) {
    info!("\n  claim  date        employee  merchant       rule         {:>10}", "EUR");
    info!("  -----  ----------  --------  -------------  -----------  ----------");
    let (mut count, mut flagged) = (0, 0);
    for claim in claims {
        let Some(rule) = claim.rule else { continue };
        (count, flagged) = (count + 1, flagged + claim.cents);
        let Claim { id, date, employee, merchant, cents, .. } = claim;
        info!("  {id:5}  {date:10}  {employee:8}  {merchant:13}  {rule:11}  {:>10}", euros(*cents));
    }
    let total: i64 = claims.iter().map(|claim| claim.cents).sum();
    let percent = (flagged * 100 + total / 2) / total;
    let (sum, all) = (euros(flagged), euros(total));
    info!("  {count} of {} claims flagged, {sum} of {all} EUR ({percent} %)", claims.len());
    info!("");
}

fn show_wrapped(text: &str, width: usize) {
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            if !line.is_empty() && line.len() + 1 + word.len() > width {
                info!("  {}", std::mem::take(&mut line));
            }
            line = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
        }
        info!("  {line}");
    }
}

/// A number for the model: `1234.50`.
fn eur(cents: i64) -> Json {
    Json::Number(format!("{}.{:02}", cents / 100, cents % 100))
}

/// A number for people: `1,234.50`.
fn euros(cents: i64) -> String {
    match cents / 100 {
        whole if whole >= 1000 => format!("{},{:03}.{:02}", whole / 1000, whole % 1000, cents % 100),
        whole => format!("{whole}.{:02}", cents % 100),
    }
}
