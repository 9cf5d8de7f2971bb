"use strict";
// Shows the Markdown of a reply. The result consists of elements that this script makes and of text nodes: no text is
// ever parsed as HTML. A link leads to http, https or mailto; an image is a link, because the page loads nothing from
// other hosts. Nesting is limited, and the work grows with the length of the text, not with its square.
const markdown = (() => {
  const DEPTH_MAX = 8, COLUMNS_MAX = 40;
  const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([\w+#.-]*)/, HEADING = /^ {0,3}(#{1,6})[ \t]+(.*)$/;
  const RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/, QUOTE = /^ {0,3}> ?/;
  const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?: {1,4}|\t|$)/, DELIMITERS = /^\|?[ \t]*:?-[-:| \t]*$/;
  const LINK = /!?\[([^[\]\n]{1,1000})\]\(([^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*)(?: "[^"\n]*")?\)/y;
  const ADDRESS = /https?:\/\/[^\s<>"`|]{1,2000}/y;
  const EMPHASIS = [["**", "strong"], ["__", "strong"], ["~~", "del"], ["*", "em"], ["_", "em"]];

  function element(parent, name, text) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }

  // --- within a line -------------------------------------------------------------------------------

  function inline(parent, text, depth) {
    const unclosed = new Set();  // marks that nothing closes in the rest of this text
    let from = 0, at = 0;
    while (at < text.length) {
      const [node, end] = depth < DEPTH_MAX ? markAt(text, at, depth, unclosed) : [null, at + 1];
      if (node !== null) {
        parent.append(text.slice(from, at), node);
        from = end;
      }
      at = end;
    }
    parent.append(text.slice(from));
  }

  // What begins at this place, or null, and where the search goes on.
  function markAt(text, at, depth, unclosed) {
    switch (text[at]) {
      case "\\": return /[!-/:-@[-`{-~]/.test(text[at + 1] || "") ? [text[at + 1], at + 2] : [null, at + 1];
      case "`": return codeAt(text, at, unclosed);
      case "!": case "[": return linkAt(text, at, depth);
      case "h": return addressAt(text, at);
      case "*": case "_": case "~": return emphasisAt(text, at, depth, unclosed);
      default: return [null, at + 1];
    }
  }

  function codeAt(text, at, unclosed) {
    let open = at;
    while (text[open] === "`") open += 1;
    const run = text.slice(at, open);
    let end = unclosed.has(run) ? -1 : text.indexOf(run, open);
    while (end >= 0 && text[end + run.length] === "`") {  // a longer run does not close this one
      let past = end;
      while (text[past] === "`") past += 1;
      end = text.indexOf(run, past);
    }
    if (end < 0) { unclosed.add(run); return [null, open]; }
    const code = document.createElement("code");
    const inner = text.slice(open, end), isPadded = inner.startsWith(" ") && inner.endsWith(" ") && inner.trim();
    code.textContent = isPadded ? inner.slice(1, -1) : inner;
    return [code, end + run.length];
  }

  function linkAt(text, at, depth) {
    LINK.lastIndex = at;
    const found = LINK.exec(text);
    if (found === null) return [null, at + 1];
    const link = linkTo(found[2]);
    if (link === null) return [found[1], LINK.lastIndex];  // the words stay, the address does not
    const end = LINK.lastIndex;
    inline(link, found[1], depth + 1);
    return [link, end];
  }

  function addressAt(text, at) {
    ADDRESS.lastIndex = at;
    const found = /\w/.test(text[at - 1] || "") ? null : ADDRESS.exec(text);
    if (found === null) return [null, at + 1];
    let end = found[0].length;
    while (".,;:!?)]}*_~'".includes(found[0][end - 1])) end -= 1;
    const link = linkTo(found[0].slice(0, end));
    if (link === null) return [null, at + 1];
    link.textContent = found[0].slice(0, end);
    return [link, at + end];
  }

  function linkTo(address) {
    let url;
    try { url = new URL(address); } catch { return null; }
    if (!["http:", "https:", "mailto:"].includes(url.protocol)) return null;
    const link = document.createElement("a");
    link.href = link.title = url.href;
    link.rel = "noopener noreferrer nofollow";
    link.target = "_blank";
    return link;
  }

  function emphasisAt(text, at, depth, unclosed) {
    const [mark, name] = EMPHASIS.find(([one]) => text.startsWith(one, at)) || ["~", ""];
    const open = at + mark.length;
    const inWord = mark[0] === "_" && /\w/.test(text[at - 1] || "");
    if (!name || inWord || unclosed.has(mark) || !/\S/.test(text[open] || "")) return [null, open];
    for (let end = text.indexOf(mark, open + 1); end >= 0; end = text.indexOf(mark, end + 1)) {
      const next = text[end + mark.length] || "";
      const isLonger = mark.length === 1 && (next === mark || text[end - 1] === mark);
      if (/\s/.test(text[end - 1]) || isLonger || (mark[0] === "_" && /\w/.test(next))) continue;
      const made = document.createElement(name);
      inline(made, text.slice(open, end), depth + 1);
      return [made, end + mark.length];
    }
    unclosed.add(mark);
    return [null, open];
  }

  // --- lines ---------------------------------------------------------------------------------------

  function blocks(parent, lines, depth) {
    let at = 0;
    while (at < lines.length) {
      if (!lines[at].trim()) at += 1;
      else at = (depth < DEPTH_MAX && blockAt(parent, lines, at, depth)) || paragraphAt(parent, lines, at, depth);
    }
  }

  // Adds the block that begins at this line, and returns the line after it, or 0 if the line is of a paragraph.
  function blockAt(parent, lines, at, depth) {
    const line = lines[at], fence = FENCE.exec(line), heading = HEADING.exec(line);
    if (fence) return fenceAt(parent, lines, at, fence);
    if (heading) {
      inline(element(parent, `h${Math.min(6, heading[1].length + 2)}`), heading[2].trimEnd(), depth);
      return at + 1;
    }
    if (RULE.test(line)) { element(parent, "hr"); return at + 1; }
    if (QUOTE.test(line)) {
      let end = at;
      while (end < lines.length && QUOTE.test(lines[end])) end += 1;
      blocks(element(parent, "blockquote"), lines.slice(at, end).map((one) => one.replace(QUOTE, "")), depth + 1);
      return end;
    }
    if (ITEM.test(line)) return listAt(parent, lines, at, depth);
    return isTable(lines, at) ? tableAt(parent, lines, at, depth) : 0;
  }

  function fenceAt(parent, lines, at, [, mark, language]) {
    let end = at + 1;
    const closes = (line) => line.trim().startsWith(mark) && !line.trim().replaceAll(mark[0], "");
    while (end < lines.length && !closes(lines[end])) end += 1;
    const shown = element(parent, "pre");
    shown.tabIndex = 0;  // so that a wide block can be scrolled with the keyboard
    if (language) shown.dataset.language = language;
    element(shown, "code", lines.slice(at + 1, end).join("\n"));
    return end + 1;
  }

  function listAt(parent, lines, at, depth) {
    const first = ITEM.exec(lines[at])[2], ordered = /\d/.test(first);
    const list = element(parent, ordered ? "ol" : "ul");
    if (ordered) list.start = parseInt(first, 10);
    while (at < lines.length) {
      const item = ITEM.exec(lines[at]);
      if (item === null || RULE.test(lines[at]) || item[2].slice(-1) !== first.slice(-1)) break;
      const inner = [lines[at].slice(item[0].length)];
      const indent = new RegExp(`^(?:\t| {${Math.min(item[1].length + 2, item[0].length)},${item[0].length}})`);
      for (at += 1; at < lines.length; at += 1) {
        const blank = !lines[at].trim();
        if (blank && !(at + 1 < lines.length && (indent.test(lines[at + 1]) || ITEM.test(lines[at + 1])))) break;
        if (!blank && !indent.test(lines[at]) && (isBlock(lines, at) || !lines[at - 1].trim())) break;
        inner.push(lines[at].replace(indent, ""));
      }
      blocks(element(list, "li"), inner, depth + 1);
    }
    return at;
  }

  function isTable(lines, at) {
    const next = lines[at + 1] || "";
    return lines[at].includes("|") && next.includes("|") && DELIMITERS.test(next.trim());
  }

  function isBlock(lines, at) {
    return [FENCE, HEADING, RULE, QUOTE, ITEM].some((one) => one.test(lines[at])) || isTable(lines, at);
  }

  function tableAt(parent, lines, at, depth) {
    const box = element(parent, "div");
    box.className = "wide";
    box.tabIndex = 0;
    const table = element(box, "table"), head = element(table, "thead"), body = element(table, "tbody");
    const sides = cells(lines[at + 1]).map((one) => (one.endsWith(":") ? (one.startsWith(":") ? "middle" : "end") : ""));
    rowOf(head, "th", lines[at], sides, depth);
    let end = at + 2;
    for (; end < lines.length && lines[end].trim() && lines[end].includes("|"); end += 1) {
      rowOf(body, "td", lines[end], sides, depth);
    }
    return end;
  }

  function cells(line) {
    const text = line.trim().replace(/^\|/, ""), found = [""];
    for (let at = 0; at < text.length && found.length <= COLUMNS_MAX; at += 1) {
      if (text[at] === "|") found.push("");
      else if (text[at] === "\\" && text[at + 1] === "|") found[found.length - 1] += text[at += 1];
      else found[found.length - 1] += text[at];
    }
    if (found.length > 1 && !found[found.length - 1].trim()) found.pop();
    return found.map((one) => one.trim());
  }

  function rowOf(parent, name, line, sides, depth) {
    const row = element(parent, "tr"), words = cells(line);
    sides.forEach((side, n) => {
      const cell = element(row, name);
      if (side) cell.className = side;
      inline(cell, words[n] || "", depth + 1);
    });
  }

  function paragraphAt(parent, lines, at, depth) {
    let end = at + 1;
    while (end < lines.length && lines[end].trim() && !(depth < DEPTH_MAX && isBlock(lines, end))) end += 1;
    const shown = element(parent, "p");
    inline(shown, lines.slice(at, end).join("\n"), depth);
    shown.dir = "auto";  // last: a browser reads an automatic direction anew with every piece that is added
    return end;
  }

  return (text) => {
    const found = document.createDocumentFragment();
    blocks(found, text.split(/\r\n|[\r\n]/), 0);
    return found;
  };
})();
