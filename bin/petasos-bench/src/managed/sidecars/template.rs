//! Configurations with placeholders.

/// Puts addresses and the folder into a configuration. A line about a server is repeated for each.
pub fn render(template: &str, listen: u16, servers: &[u16], folder: &str) -> String {
    let mut text = String::new();
    for line in template.lines() {
        let line = line.replace("@LISTEN_PORT@", &listen.to_string()).replace("@FOLDER@", folder);
        if !line.contains("@SERVER_PORT@") {
            text += &line;
            text.push('\n');
            continue;
        }
        for (number, port) in servers.iter().enumerate() {
            let of_server = line.replace("@SERVER_PORT@", &port.to_string());
            text += &of_server.replace("@NUMBER@", &number.to_string());
            text.push('\n');
        }
    }
    text
}

/// The place of filters of calls.
const FILTERS: &str = "# FILTERS";

/// Puts a filter, which may be empty, at the template's place for it, with its indentation.
pub fn with_filter(template: &str, filter: &str) -> String {
    let mut text = String::new();
    for line in template.lines() {
        match line.trim_start() {
            FILTERS => {
                let indentation = &line[..line.len() - FILTERS.len()];
                filter.lines().for_each(|line| text += &format!("{indentation}{line}\n"));
            }
            _ => text += &format!("{line}\n"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_have_the_indentation_of_their_place() {
        let template = "a:\n  # FILTERS\n  - b\n";
        assert_eq!(with_filter(template, "- c:\n    d\n"), "a:\n  - c:\n      d\n  - b\n");
        assert_eq!(with_filter(template, ""), "a:\n  - b\n");
    }

    #[test]
    fn lines_of_servers_are_repeated_and_others_are_not() {
        let template = "listen @LISTEN_PORT@\nserver s@NUMBER@ @SERVER_PORT@\nin @FOLDER@/x\n";
        let text = render(template, 1, &[2, 3], "/tmp/f");
        assert_eq!(text, "listen 1\nserver s0 2\nserver s1 3\nin /tmp/f/x\n");
        assert_eq!(render(template, 1, &[], "/f"), "listen 1\nin /f/x\n");
    }
}
